// Streams of the fake: asynchronous, each in order, and nothing else in order.

#include <atomic>
#include <set>
#include <vector>

#include "tests/transport/cuda/fake/fake_fixture.h"

namespace farpage {
namespace {

using cuda::kNotReady;
using cuda::kSuccess;

class FakeStreams : public FakeDriverTest {
 protected:
  struct Note {
    std::vector<int>* order;
    int what;
  };
  // Notes `what` when the stream gets there.
  void note_on(cuda::Stream stream, Note& note) {
    const auto function = [](void* argument) {
      const auto* it = static_cast<Note*>(argument);
      it->order->push_back(it->what);
    };
    ASSERT_EQ(later_.call_host(stream, function, &note), kSuccess);
  }
  // Four notes on each of three streams, which start together.
  std::vector<int> order_by(uint64_t seed) {
    start({.seed = seed});
    fake_->hold(nullptr);
    std::vector<int> order;
    std::vector<Note> notes(12);
    std::vector<cuda::Stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(make_stream());
    for (int i = 0; i < 12; ++i) {
      notes[i] = {&order, i};
      note_on(streams[i % 3], notes[i]);
    }
    fake_->release(nullptr);
    for (const cuda::Stream stream : streams) destroy(stream);
    return order;
  }
};

TEST_F(FakeStreams, return_before_the_work_is_done) {
  const cuda::Stream stream = make_stream();
  const uint64_t device = allocate(4096);
  std::byte* const host = pin(4096);
  host[0] = host[4095] = std::byte{7};
  cuda::Event event = nullptr;
  ASSERT_EQ(driver_.make_event(&event, 0), kSuccess);
  fake_->hold(stream);
  ASSERT_EQ(driver_.copy_to_device(device, host, 4096, stream), kSuccess);
  ASSERT_EQ(driver_.record_event(event, stream), kSuccess);
  std::byte seen{};
  ASSERT_EQ(fake_->peek(device + 4095, &seen, 1), kSuccess);
  EXPECT_NE(seen, std::byte{7});
  EXPECT_EQ(driver_.event_done(event), kNotReady);
  EXPECT_EQ(later_.stream_done(stream), kNotReady);
  fake_->release(stream);
  EXPECT_EQ(driver_.wait_for_event(event), kSuccess);
  EXPECT_EQ(driver_.event_done(event), kSuccess);
  ASSERT_EQ(fake_->peek(device + 4095, &seen, 1), kSuccess);
  EXPECT_EQ(seen, std::byte{7});
  EXPECT_EQ(driver_.destroy_event(event), kSuccess);
  destroy(stream);
  EXPECT_EQ(driver_.free(device), kSuccess);
  EXPECT_EQ(driver_.free_host(host), kSuccess);
}

TEST_F(FakeStreams, keep_their_own_order_and_no_other) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const std::vector<int> order = order_by(seed);
    ASSERT_EQ(order.size(), 12u);
    std::vector<int> last{-1, -1, -1};
    for (const int note : order) {
      EXPECT_LT(last[note % 3], note) << "seed " << seed;
      last[note % 3] = note;
    }
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 1u);
}

TEST_F(FakeStreams, go_in_the_order_that_the_seed_decides) {
  EXPECT_EQ(order_by(5), order_by(5));
}

// A stream that stands still holds nobody up, but those that wait for its event.
TEST_F(FakeStreams, wait_for_an_event_of_another_one) {
  const cuda::Stream first = make_stream();
  const cuda::Stream second = make_stream();
  const cuda::Stream third = make_stream();
  cuda::Event event = nullptr;
  ASSERT_EQ(driver_.make_event(&event, cuda::kEventWithoutTiming), kSuccess);
  fake_->hold(first);
  ASSERT_EQ(driver_.record_event(event, first), kSuccess);
  ASSERT_EQ(driver_.stream_wait_event(second, event, 0), kSuccess);
  std::vector<int> order;
  Note note{&order, 1};
  note_on(third, note);
  ASSERT_EQ(driver_.wait_for_stream(third), kSuccess);
  EXPECT_EQ(later_.stream_done(second), kNotReady);
  fake_->release(first);
  destroy(second);
  destroy(first);
  destroy(third);
  EXPECT_EQ(driver_.destroy_event(event), kSuccess);
}

TEST_F(FakeStreams, wait_for_the_recording_that_was_the_latest_then) {
  const cuda::Stream first = make_stream();
  const cuda::Stream second = make_stream();
  const cuda::Stream third = make_stream();
  cuda::Event event = nullptr;
  ASSERT_EQ(driver_.make_event(&event, 0), kSuccess);
  ASSERT_EQ(driver_.stream_wait_event(third, event, 0), kSuccess);  // never recorded
  ASSERT_EQ(driver_.wait_for_stream(third), kSuccess);
  ASSERT_EQ(driver_.record_event(event, first), kSuccess);
  ASSERT_EQ(driver_.stream_wait_event(third, event, 0), kSuccess);
  fake_->hold(second);
  ASSERT_EQ(driver_.record_event(event, second), kSuccess);
  EXPECT_EQ(driver_.wait_for_stream(third), kSuccess);
  EXPECT_EQ(driver_.event_done(event), kNotReady);
  fake_->release(second);
  for (const cuda::Stream stream : {first, second, third}) destroy(stream);
  EXPECT_EQ(driver_.destroy_event(event), kSuccess);
}

TEST_F(FakeStreams, finish_their_work_after_they_were_destroyed) {
  const cuda::Stream stream = make_stream();
  const cuda::Stream other = make_stream();
  cuda::Event event = nullptr;
  ASSERT_EQ(driver_.make_event(&event, 0), kSuccess);
  std::vector<int> order;
  Note note{&order, 1};
  fake_->hold(stream);
  note_on(stream, note);
  ASSERT_EQ(driver_.record_event(event, stream), kSuccess);
  ASSERT_EQ(driver_.destroy_stream(stream), kSuccess);
  fake_->release(stream);
  EXPECT_EQ(driver_.wait_for_event(event), kSuccess);
  EXPECT_EQ(order, std::vector<int>{1});
  expect_broken(driver_.wait_for_stream(stream), cuda::kInvalidHandle, "was destroyed");
  destroy(other);
  EXPECT_EQ(driver_.destroy_event(event), kSuccess);
  expect_broken(driver_.event_done(event), cuda::kInvalidHandle, "no such event");
}

TEST_F(FakeStreams, measure_time_between_events_that_are_done) {
  const cuda::Stream stream = make_stream();
  cuda::Event begin = nullptr;
  cuda::Event end = nullptr;
  cuda::Event untimed = nullptr;
  ASSERT_EQ(driver_.make_event(&begin, 0), kSuccess);
  ASSERT_EQ(driver_.make_event(&end, 0), kSuccess);
  ASSERT_EQ(driver_.make_event(&untimed, cuda::kEventWithoutTiming), kSuccess);
  float elapsed_ms = -1;
  expect_broken(driver_.elapsed_ms(&elapsed_ms, begin, end), cuda::kInvalidHandle, "no time");
  ASSERT_EQ(driver_.record_event(begin, stream), kSuccess);
  ASSERT_EQ(driver_.record_event(untimed, stream), kSuccess);
  ASSERT_EQ(driver_.wait_for_stream(stream), kSuccess);
  expect_broken(driver_.elapsed_ms(&elapsed_ms, begin, untimed), cuda::kInvalidHandle, "no time");
  fake_->hold(stream);
  ASSERT_EQ(driver_.record_event(end, stream), kSuccess);
  EXPECT_EQ(driver_.elapsed_ms(&elapsed_ms, begin, end), kNotReady);
  fake_->release(stream);
  ASSERT_EQ(driver_.wait_for_event(end), kSuccess);
  EXPECT_EQ(driver_.elapsed_ms(&elapsed_ms, begin, end), kSuccess);
  EXPECT_GE(elapsed_ms, 0);
  destroy(stream);
  for (const cuda::Event event : {begin, end, untimed}) {
    EXPECT_EQ(driver_.destroy_event(event), kSuccess);
  }
}

TEST_F(FakeStreams, let_no_host_function_call_the_driver) {
  const cuda::Stream stream = make_stream();
  struct Asked {
    const cuda::Driver* driver;
    std::atomic<int> result = -1;
  } asked{&driver_};
  const auto function = [](void* argument) {
    auto* it = static_cast<Asked*>(argument);
    int count = 0;
    it->result = it->driver->device_count(&count);
  };
  ASSERT_EQ(later_.call_host(stream, function, &asked), kSuccess);
  destroy(stream);
  expect_broken(asked.result, cuda::kNotPermitted, "host function");
}

TEST_F(FakeStreams, are_late_by_a_delay_and_do_all_the_same) {
  start({.seed = 2, .delay_us = 300});
  const cuda::Stream stream = make_stream();
  std::vector<int> order;
  std::vector<Note> notes{{&order, 0}, {&order, 1}, {&order, 2}};
  for (Note& note : notes) note_on(stream, note);
  destroy(stream);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace farpage
