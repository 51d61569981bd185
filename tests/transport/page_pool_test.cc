#include "transport/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"

namespace farpage {
namespace {

struct PagePoolTest : testing::Test {
  PagePool make(uint64_t page_bytes, uint32_t pages) {
    Result<PagePool> pool = PagePool::create(fabric, page_bytes, pages);
    EXPECT_TRUE(pool) << pool.error().message;
    return std::move(*pool);
  }

  sim::World world{1};
  sim::SimFabric fabric{world, {}};
};

TEST_F(PagePoolTest, LendsEachPageOnceAndTakesItBack) {
  PagePool pool = make(100, 3);
  std::set<std::byte*> places;
  {
    std::vector<PageLease> leases;
    while (std::optional<PageLease> lease = pool.take()) leases.push_back(std::move(*lease));
    ASSERT_EQ(leases.size(), 3u);
    for (const PageLease& lease : leases) {
      EXPECT_EQ(lease.slice().bytes, 100u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.slice().data) % 64, 0u);
      std::memset(lease.slice().data, 1, 100);
      places.insert(lease.slice().data);
    }
    EXPECT_EQ(places.size(), 3u);
    EXPECT_EQ(pool.free_pages(), 0u);
  }
  EXPECT_EQ(pool.free_pages(), 3u);
}

TEST_F(PagePoolTest, AMovedLeaseGivesItsPageBackOnce) {
  PagePool pool = make(4096, 2);
  {
    std::optional<PageLease> one = pool.take();
    std::optional<PageLease> other = pool.take();
    PageLease moved = std::move(*one);
    *other = std::move(moved);
  }
  EXPECT_EQ(pool.free_pages(), 2u);
}

// I4.
TEST_F(PagePoolTest, AQuarantinedPageComesBackOnlyWhenItsOperationHasEnded) {
  PagePool pool = make(4096, 1);
  bool ended = false;
  std::byte* place = nullptr;
  {
    std::optional<PageLease> lease = pool.take();
    place = lease->slice().data;
    std::move(*lease).quarantine([&ended] { return ended; });
  }
  EXPECT_EQ(pool.free_pages(), 0u);
  EXPECT_EQ(pool.quarantined_pages(), 1u);
  EXPECT_FALSE(pool.take());
  ended = true;
  std::optional<PageLease> lease = pool.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->slice().data, place);
  EXPECT_EQ(pool.quarantined_pages(), 0u);
}

TEST_F(PagePoolTest, RefusesImpossibleSizes) {
  EXPECT_FALSE(PagePool::create(fabric, 0, 1));
  EXPECT_FALSE(PagePool::create(fabric, 4096, 0));
  EXPECT_FALSE(PagePool::create(fabric, UINT64_MAX, UINT32_MAX));
  EXPECT_FALSE(PagePool::create(fabric, UINT64_MAX - 1, 1));
}

}  // namespace
}  // namespace farpage
