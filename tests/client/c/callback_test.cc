#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>

#include "tests/client/c/c_client.h"
#include "tests/client/c/held_callback.h"

namespace farpage {
namespace {

// A notification that runs `run` as its callback.
farpage_notification_t calls(std::function<void()>& run) {
  farpage_notification_t notification = FARPAGE_NOTIFICATION_INIT;
  notification.callback = [](void* context) { (*static_cast<std::function<void()>*>(context))(); };
  notification.context = &run;
  return notification;
}

TEST(CCallback, RunsOnceForEachOperation) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  std::atomic<int> runs = 0;
  std::function<void()> count = [&] { ++runs; };
  const auto notification = calls(count);
  const auto keys = keys_up_to(1);
  put(client.get(), pages_in(memory), &notification);
  fetch(client.get(), pages_in(memory), &notification);
  farpage_ticket_t* ticket = nullptr;
  expect_ok(farpage_exists(client.get(), keys.data(), 1, kTimeoutUs, &notification, &ticket));
  farpage_ticket_free(ticket);
  expect_ok(farpage_remove(client.get(), keys.data(), 1, kTimeoutUs, &notification, &ticket));
  farpage_ticket_free(ticket);
  EXPECT_EQ(runs, 4);
}

TEST(CCallback, MaySubmitAndMustNotWait) {
  const auto client = open_one_lane();
  const auto keys = keys_up_to(1);
  farpage_ticket_t* second = nullptr;
  std::function<void()> run = [&] {
    expect_ok(farpage_exists(client.get(), keys.data(), 1, kTimeoutUs, nullptr, &second));
    uint64_t leading = 0;
    EXPECT_EQ(farpage_ticket_wait(second, 0), FARPAGE_TIMEOUT);
    EXPECT_EQ(farpage_ticket_wait(second, kTimeoutUs), FARPAGE_BUSY);
    EXPECT_EQ(farpage_ticket_wait_released(second, kTimeoutUs), FARPAGE_BUSY);
    EXPECT_THAT(farpage_last_error(), testing::HasSubstr("must not wait"));
    EXPECT_EQ(farpage_leading(client.get(), keys.data(), 1, kTimeoutUs, &leading), FARPAGE_BUSY);
    EXPECT_EQ(farpage_flush(client.get(), kTimeoutUs), FARPAGE_BUSY);
    EXPECT_EQ(farpage_close(client.get()), FARPAGE_BUSY);
  };
  const auto notification = calls(run);
  fetch(client.get(), {}, &notification);
  const CTicket freed(second);
  EXPECT_EQ(verdicts(freed)[0].reason, FARPAGE_REASON_MISS);
}

// Of another operation than its own, which is not released before it returns.
TEST(CCallback, MayFreeATicketThatGoesOn) {
  auto memory = filled(1, 1);
  const auto client = open_one_lane();
  register_all(client.get(), memory);
  std::atomic<int> freed = 0;
  std::function<void()> run = [&] {
    farpage_ticket_free(fetch(client.get(), pages_in(memory)).release());
    ++freed;
  };
  const auto notification = calls(run);
  for (int round = 0; round < 1'000; ++round) fetch(client.get(), {}, &notification);
  // Had they stayed, no more could be under way by now, and fetch() would say so.
  EXPECT_EQ(freed, 1'000);
}

TEST(CCompletions, BringTheTagOfEachEnd) {
  const auto client = open_client();
  const auto completions = make_completions();
  std::vector<CTicket> tickets;
  farpage_notification_t notification = FARPAGE_NOTIFICATION_INIT;
  notification.completions = completions.get();
  for (notification.tag = 10; notification.tag < 20; ++notification.tag) {
    tickets.push_back(fetch(client.get(), {}, &notification));
  }
  std::vector<uint64_t> seen;
  while (seen.size() < 10) {
    pollfd waits = {farpage_completions_fd(completions.get()), POLLIN, 0};
    ASSERT_EQ(::poll(&waits, 1, 20'000), 1);
    std::array<uint64_t, 4> tags = {};
    size_t taken = 0;
    expect_ok(farpage_completions_take(completions.get(), tags.data(), tags.size(), &taken));
    seen.insert(seen.end(), tags.begin(), tags.begin() + taken);
  }
  std::ranges::sort(seen);
  for (uint64_t tag = 10; tag < 20; ++tag) EXPECT_EQ(seen[tag - 10], tag);
}

TEST(CCompletions, MayGoBeforeTheOperationThatNamesThem) {
  const auto client = open_one_lane();
  HeldCallback held;
  const auto first = fetch(client.get(), {}, held.notification());
  held.wait_entered();
  auto completions = make_completions();
  farpage_notification_t notification = FARPAGE_NOTIFICATION_INIT;
  notification.completions = completions.get();
  const auto second = fetch(client.get(), {}, &notification);
  completions.reset();
  held.let_go();
  expect_ok(farpage_ticket_wait_released(second.get(), kTimeoutUs));
}

}  // namespace
}  // namespace farpage
