#include "transport/page_pool.h"

#include <gtest/gtest.h>

#include <cstdlib>
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

TEST_F(PagePoolTest, LendsPagesByNumberToo) {
  PagePool pool = make(100, 2);
  EXPECT_EQ(pool.page_bytes(), 100u);
  const PageLease lease = *pool.take();
  const uint32_t index = pool.take_index().value();
  EXPECT_NE(index, lease.index());
  EXPECT_EQ(pool.slice(lease.index(), 100).data, lease.slice().data);
  EXPECT_EQ(pool.slice(index, 7).bytes, 7u);
  EXPECT_GE(std::abs(pool.slice(index, 7).data - lease.slice().data), 100);
  EXPECT_FALSE(pool.take_index());
  pool.give_back(index);
  EXPECT_EQ(pool.take_index(), index);
}

TEST_F(PagePoolTest, APoolOfNoPageLendsNone) {
  PagePool pool;
  EXPECT_EQ(pool.pages(), 0u);
  EXPECT_FALSE(pool.take());
  EXPECT_FALSE(pool.take_index());
}

TEST_F(PagePoolTest, RefusesImpossibleSizes) {
  EXPECT_FALSE(PagePool::create(fabric, 0, 1));
  EXPECT_FALSE(PagePool::create(fabric, 4096, 0));
  EXPECT_FALSE(PagePool::create(fabric, UINT64_MAX, UINT32_MAX));
  EXPECT_FALSE(PagePool::create(fabric, UINT64_MAX - 1, 1));
}

}  // namespace
}  // namespace farpage
