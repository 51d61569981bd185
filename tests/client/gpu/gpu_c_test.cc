// Memory of a GPU in the C API, over the fake driver.

#include <farpage/farpage.h>
#include <gmock/gmock.h>

#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kSuccess;
using testing::HasSubstr;

constexpr uint64_t kBytes = 4096;
constexpr uint64_t kPatienceUs = 20'000'000;

class GpuInC : public FakeDriverTest {
 protected:
  GpuInC() {
    EXPECT_EQ(farpage_open("[client]\nembedded = true\n[embedded]\npool_bytes = \"8MiB\"\n"
                           "page_bytes = 4096\n[gpu]\nbounce_bytes = \"64KiB\"\n",
                           &client_),
              FARPAGE_OK)
        << farpage_last_error();
    pool_ = allocate(2 * kBytes);
    EXPECT_EQ(farpage_register_gpu(client_, pool_, 2 * kBytes, &region_), FARPAGE_OK)
        << farpage_last_error();
  }
  ~GpuInC() override {
    EXPECT_EQ(farpage_close(client_), FARPAGE_OK) << farpage_last_error();
    EXPECT_EQ(driver_.free(pool_), kSuccess);
  }

  static farpage_page_t page_at(uint64_t address, uint8_t number) {
    farpage_page_t page = FARPAGE_PAGE_INIT;
    page.key.bytes[0] = number;
    page.data = reinterpret_cast<void*>(address);
    page.bytes = kBytes;
    return page;
  }
  void put(uint8_t number) {
    std::vector<uint8_t> memory(kBytes, number);
    farpage_region_t* region = nullptr;
    ASSERT_EQ(farpage_register(client_, memory.data(), kBytes, &region), FARPAGE_OK);
    const auto page = page_at(reinterpret_cast<uint64_t>(memory.data()), number);
    farpage_ticket_t* ticket = nullptr;
    ASSERT_EQ(farpage_put(client_, &page, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK);
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
    farpage_ticket_free(ticket);
    ASSERT_EQ(farpage_unregister(region), FARPAGE_OK);
  }
  farpage_ticket_t* fetch(uint8_t number, uint64_t timeout_us = kPatienceUs) {
    const auto page = page_at(pool_ + kBytes, number);
    farpage_ticket_t* ticket = nullptr;
    EXPECT_EQ(farpage_fetch(client_, &page, 1, timeout_us, nullptr, &ticket), FARPAGE_OK)
        << farpage_last_error();
    return ticket;
  }

  farpage_t* client_ = nullptr;
  farpage_region_t* region_ = nullptr;
  uint64_t pool_ = 0;
};

TEST_F(GpuInC, IsFetchedInto) {
  put(7);
  farpage_ticket_t* const ticket = fetch(7);
  ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  const farpage_page_verdict_t* verdicts = nullptr;
  size_t count = 0;
  ASSERT_EQ(farpage_ticket_verdicts(ticket, &verdicts, &count), FARPAGE_OK);
  EXPECT_EQ(verdicts[0].verdict, FARPAGE_READY);
  std::vector<uint8_t> seen(kBytes);
  ASSERT_EQ(fake_->peek(pool_ + kBytes, seen.data(), kBytes), kSuccess);
  EXPECT_EQ(seen, std::vector<uint8_t>(kBytes, 7));
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, IsBusyWhileACopyMayWriteIt) {
  put(7);
  fake_->hold(nullptr);
  farpage_ticket_t* ticket = nullptr;
  // On a busy machine the page may land too late for a copy.
  for (uint64_t timeout_us = 50'000; fake_->live().operations == 0; timeout_us *= 2) {
    farpage_ticket_free(ticket);
    ticket = fetch(7, timeout_us);
    ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  }
  const farpage_page_verdict_t* verdicts = nullptr;
  size_t count = 0;
  ASSERT_EQ(farpage_ticket_verdicts(ticket, &verdicts, &count), FARPAGE_OK);
  EXPECT_EQ(verdicts[0].reason, FARPAGE_REASON_STALLED);
  EXPECT_EQ(verdicts[0].held, 1u);
  EXPECT_EQ(farpage_unregister(region_), FARPAGE_BUSY);
  fake_->release(nullptr);
  ASSERT_EQ(farpage_ticket_wait_released(ticket, kPatienceUs), FARPAGE_OK);
  EXPECT_EQ(farpage_unregister(region_), FARPAGE_OK);
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, IsRegisteredOnce) {
  farpage_region_t* again = nullptr;
  EXPECT_EQ(farpage_register_gpu(client_, pool_ + kBytes, kBytes, &again), FARPAGE_EXISTS);
  EXPECT_EQ(again, nullptr);
}

TEST_F(GpuInC, IsNoSourceOfPuts) {
  const auto page = page_at(pool_, 1);
  farpage_ticket_t* ticket = nullptr;
  ASSERT_EQ(farpage_put(client_, &page, 1, kPatienceUs, nullptr, &ticket), FARPAGE_OK);
  ASSERT_EQ(farpage_ticket_wait(ticket, kPatienceUs), FARPAGE_OK);
  const farpage_put_result_t* results = nullptr;
  size_t count = 0;
  ASSERT_EQ(farpage_ticket_results(ticket, &results, &count), FARPAGE_OK);
  EXPECT_EQ(results[0].code, FARPAGE_INVALID);
  farpage_ticket_free(ticket);
}

TEST_F(GpuInC, RefusesWhatIsMissing) {
  farpage_region_t* region = nullptr;
  EXPECT_EQ(farpage_register_gpu(nullptr, pool_, kBytes, &region), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu(client_, pool_, kBytes, nullptr), FARPAGE_INVALID);
  EXPECT_EQ(farpage_register_gpu(client_, 0, 0, &region), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("the 0 bytes at 0x0 are no memory"));
}

}  // namespace
}  // namespace farpage
