// When device work of the fake sees what a NIC has written, and waits on values.

#include <atomic>
#include <cstring>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kNotReady;
using cuda::kNotSupported;
using cuda::kSuccess;
using cuda::NicWrite;

constexpr int kToOwner = 100;
constexpr int kToAll = 200;

class FakeVisibility : public FakeDriverTest {
 protected:
  static constexpr uint64_t kOld = 0xA5A5A5A5A5A5A5A5;  // of new memory
  static constexpr uint64_t kCounterAt = 64;

  FakeVisibility() { begin({}); }
  ~FakeVisibility() override { end(); }
  void begin(const cuda::FakeSettings& settings) {
    if (stream_ != nullptr) end();
    start(settings);
    stream_ = make_stream();
    device_ = allocate(4096);
    host_ = pin(4096);
  }
  void end() {
    destroy(stream_);
    EXPECT_EQ(driver_.free(device_), kSuccess);
    EXPECT_EQ(driver_.free_host(host_), kSuccess);
  }
  void write(uint64_t offset, uint64_t word, NicWrite how = NicWrite::kHeldBack) {
    ASSERT_EQ(fake_->nic_write(device_ + offset, &word, sizeof word, how), kSuccess);
  }
  void enqueue_read() {
    ASSERT_EQ(driver_.copy_to_host(host_, device_, sizeof(uint64_t), stream_), kSuccess);
  }
  uint64_t result() {
    EXPECT_EQ(driver_.wait_for_stream(stream_), kSuccess);
    uint64_t word = 0;
    std::memcpy(&word, host_, sizeof word);
    return word;
  }
  uint64_t read() {
    enqueue_read();
    return result();
  }
  int wait_value(unsigned flags = cuda::kWaitGreaterOrEqual) {
    return driver_.stream_wait_value(stream_, device_ + kCounterAt, 1, flags);
  }

  cuda::Stream stream_ = nullptr;
  uint64_t device_ = 0;
  std::byte* host_ = nullptr;
};

TEST_F(FakeVisibility, comes_with_the_write_where_writes_are_ordered_for_their_owner) {
  write(0, 7);
  EXPECT_EQ(read(), 7u);
}

TEST_F(FakeVisibility, comes_with_a_flush_where_they_are_not) {
  begin({.writes_ordering = 0, .flush_options = 1});
  write(0, 7);
  EXPECT_EQ(read(), kOld);
  ASSERT_EQ(driver_.flush_writes(0, kToOwner), kSuccess);
  EXPECT_EQ(read(), 7u);
}

TEST_F(FakeVisibility, does_not_come_by_a_flush_that_the_device_lacks) {
  begin({.writes_ordering = 0, .flush_options = 2});
  write(0, 7);
  EXPECT_EQ(driver_.flush_writes(0, kToOwner), kNotSupported);
  EXPECT_EQ(read(), kOld);
}

TEST_F(FakeVisibility, needs_no_flush_within_the_scope_of_the_attribute) {
  EXPECT_EQ(driver_.flush_writes(0, kToOwner), kSuccess);
  EXPECT_EQ(driver_.flush_writes(0, kToAll), kNotSupported);
  begin({.writes_ordering = 200});
  EXPECT_EQ(driver_.flush_writes(0, kToAll), kSuccess);
  expect_broken(driver_.flush_writes(1, kToAll), cuda::kInvalidValue, "unknown");
}

// The bug of those who forget the flush: the counter says that the payload is there.
TEST_F(FakeVisibility, of_a_counter_does_not_show_the_payload) {
  begin({.writes_ordering = 0, .flush_options = 2});
  write(kCounterAt, 0, NicWrite::kOvertakes);
  ASSERT_EQ(wait_value(), kSuccess);
  enqueue_read();
  write(0, 7);
  write(kCounterAt, 1, NicWrite::kOvertakes);
  EXPECT_EQ(result(), kOld);
}

TEST_F(FakeVisibility, of_the_payload_comes_with_a_wait_that_flushes) {
  begin({.writes_ordering = 0, .flush_options = 2});
  write(kCounterAt, 0, NicWrite::kOvertakes);
  ASSERT_EQ(wait_value(cuda::kWaitFlush), kSuccess);
  enqueue_read();
  write(0, 7);
  EXPECT_EQ(later_.stream_done(stream_), kNotReady);
  write(kCounterAt, 1, NicWrite::kOvertakes);
  EXPECT_EQ(result(), 7u);
}

TEST_F(FakeVisibility, of_writes_into_freed_memory_never_comes) {
  begin({.writes_ordering = 0, .flush_options = 1});
  const uint64_t gone = allocate(4096);
  const uint64_t word = 7;
  ASSERT_EQ(fake_->nic_write(gone, &word, sizeof word, NicWrite::kHeldBack), kSuccess);
  EXPECT_EQ(driver_.free(gone), kSuccess);
  EXPECT_EQ(driver_.flush_writes(0, kToOwner), kSuccess);
  EXPECT_EQ(fake_->nic_write(gone, &word, sizeof word, NicWrite::kHeldBack), cuda::kIllegalAddress);
}

// By the host's CPU, by another stream; equal, and some bit of.
TEST_F(FakeVisibility, of_a_value_lets_the_stream_go_on) {
  auto* const word = reinterpret_cast<uint64_t*>(host_ + 8);
  std::atomic_ref(*word).store(0);
  uint64_t address = 0;
  ASSERT_EQ(driver_.host_address(&address, word, 0), kSuccess);
  const cuda::Stream other = make_stream();
  ASSERT_EQ(driver_.stream_wait_value(stream_, address, 2, cuda::kWaitEqual), kSuccess);
  EXPECT_EQ(later_.stream_done(stream_), kNotReady);
  std::atomic_ref(*word).store(2);
  ASSERT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  ASSERT_EQ(driver_.stream_wait_value(stream_, address, 4, cuda::kWaitAnd), kSuccess);
  EXPECT_EQ(later_.stream_done(stream_), kNotReady);
  ASSERT_EQ(later_.write_value(other, address, 5, 0), kSuccess);
  ASSERT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  // Cyclic: the counter may run over.
  ASSERT_EQ(driver_.stream_wait_value(stream_, address, ~uint64_t{0} - 1, 0), kSuccess);
  ASSERT_EQ(driver_.wait_for_stream(stream_), kSuccess);
  destroy(other);
}

TEST_F(FakeVisibility, of_values_is_waited_for_only_where_the_device_can) {
  expect_broken(driver_.stream_wait_value(stream_, device_ + 4, 0, 0), cuda::kInvalidValue, "8");
  expect_broken(driver_.stream_wait_value(stream_, device_ + 4096, 0, 0), cuda::kInvalidValue, "8");
  EXPECT_EQ(wait_value(cuda::kWaitFlush), kNotSupported);
  EXPECT_EQ(driver_.stream_wait_value(stream_, device_, 0, 3), kNotSupported);
  end();
  stream_ = nullptr;
  const cuda::FakeCounts none{.contexts = 1};
  EXPECT_EQ(fake_->live(), none);
  EXPECT_EQ(driver_.release_context(0), kSuccess);
  begin({.stream_wait_values = false});
  EXPECT_EQ(wait_value(), kNotSupported);
  EXPECT_EQ(later_.write_value(stream_, device_, 1, 0), kNotSupported);
}

}  // namespace
}  // namespace farpage
