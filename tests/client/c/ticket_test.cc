#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "tests/client/c/c_client.h"
#include "tests/client/c/held_callback.h"

namespace farpage {
namespace {

using testing::HasSubstr;

TEST(CTicket, IsBusyUntilItIsDone) {
  auto memory = filled(1, 1);
  const auto client = open_one_lane();
  register_all(client.get(), memory);
  HeldCallback held;
  const auto first = fetch(client.get(), pages_in(memory), held.notification());
  held.wait_entered();
  const auto second = fetch(client.get(), pages_in(memory));
  EXPECT_EQ(farpage_ticket_done(second.get()), 0);
  EXPECT_EQ(farpage_ticket_released(second.get()), 0);
  EXPECT_EQ(farpage_ticket_wait(second.get(), 0), FARPAGE_TIMEOUT);
  EXPECT_EQ(farpage_ticket_wait_released(second.get(), 1), FARPAGE_TIMEOUT);
  EXPECT_THAT(farpage_last_error(), HasSubstr("goes on"));
  const farpage_page_verdict_t* verdicts_of = nullptr;
  size_t count = 1;
  EXPECT_EQ(farpage_ticket_verdicts(second.get(), &verdicts_of, &count), FARPAGE_BUSY);
  EXPECT_EQ(count, 0u);
  EXPECT_STREQ(farpage_ticket_why(second.get()), "");
  held.let_go();
  expect_ok(farpage_ticket_wait(second.get(), UINT64_MAX));
  EXPECT_EQ(farpage_ticket_done(second.get()), 1);
  expect_ok(farpage_ticket_wait_released(second.get(), UINT64_MAX));
  EXPECT_EQ(farpage_ticket_released(second.get()), 1);
}

TEST(CTicket, WhatIsNotReadyIsHeldUntilItIsReleased) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  HeldCallback held;
  const auto ticket = fetch(client.get(), pages_in(memory), held.notification());
  held.wait_entered();
  const auto before = verdicts(ticket);
  EXPECT_EQ(before[0].verdict, FARPAGE_RECOMPUTE);
  EXPECT_EQ(before[0].held, 1u);
  held.let_go();
  expect_ok(farpage_ticket_wait_released(ticket.get(), kTimeoutUs));
  EXPECT_EQ(before[0].held, 1u);  // as of the last call
  EXPECT_EQ(verdicts(ticket)[0].held, 0u);
}

TEST(CTicket, OutlivesItsClient) {
  auto memory = filled(1, 1);
  CTicket fetched, stored;
  {
    const auto client = open_client();
    register_all(client.get(), memory);
    stored = put(client.get(), pages_in(memory));
    wait(stored);
    fetched = fetch(client.get(), pages_in(memory));
  }
  EXPECT_EQ(farpage_ticket_released(fetched.get()), 1);
  EXPECT_EQ(verdicts(fetched)[0].verdict, FARPAGE_READY);
  EXPECT_EQ(results(stored)[0].code, FARPAGE_OK);
}

TEST(CTicket, KeepsItsPlaceUntilItIsFreed) {
  auto memory = filled(1, 1);
  const auto client = open_client(
      "[client]\nlanes = 2\nqueue_depth = 1\nembedded = true\n[embedded]\npage_bytes = 4096\n");
  register_all(client.get(), memory);
  const auto pages = pages_in(memory);
  const auto keys = keys_up_to(1);
  std::vector<CTicket> reads;
  for (int lane = 0; lane < 2; ++lane) {
    reads.push_back(fetch(client.get(), pages));
    expect_ok(farpage_ticket_wait_released(reads.back().get(), kTimeoutUs));
  }
  farpage_ticket_t* more = nullptr;
  EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 1, 0, nullptr, &more), FARPAGE_EXHAUSTED);
  EXPECT_THAT(farpage_last_error(), HasSubstr("free one that is done"));
  EXPECT_EQ(farpage_exists(client.get(), keys.data(), 1, 0, nullptr, &more), FARPAGE_EXHAUSTED);
  put_all(client.get(), pages);  // has places of its own
  reads.pop_back();
  EXPECT_EQ(verdicts(fetch(client.get(), pages)).size(), 1u);
}

TEST(CTicket, AnswersAsItsOperationDoes) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  const auto fetched = fetch(client.get(), pages_in(memory));
  const auto stored = put(client.get(), pages_in(memory));
  wait(fetched);
  wait(stored);
  const farpage_page_verdict_t* verdicts_of = nullptr;
  const farpage_put_result_t* results_of = nullptr;
  size_t count = 0;
  uint64_t removed = 0;
  EXPECT_EQ(farpage_ticket_results(fetched.get(), &results_of, &count), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("farpage_ticket_verdicts()"));
  EXPECT_EQ(farpage_ticket_removed(fetched.get(), &removed), FARPAGE_INVALID);
  EXPECT_EQ(farpage_ticket_verdicts(stored.get(), &verdicts_of, &count), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("farpage_ticket_results()"));
}

TEST(CTicket, WhatANodeThatHasEndedDoesNotAcknowledgeIsACode) {
  const std::string toml = "[client]\nembedded = true\n[embedded]\nname = \"c_ticket_" +
                           std::to_string(::getpid()) + "\"\npage_bytes = 4096\n";
  auto memory = filled(1, 1);
  auto with_node = open_client(toml);
  const auto client = open_client(toml);
  register_all(client.get(), memory);
  put_all(client.get(), pages_in(memory));
  with_node.reset();
  const auto keys = keys_up_to(1);
  farpage_ticket_t* made = nullptr;
  expect_ok(farpage_remove(client.get(), keys.data(), 1, 50'000, nullptr, &made));
  const CTicket removes(made);
  wait(removes);
  uint64_t removed = 1;
  const auto code = farpage_ticket_removed(removes.get(), &removed);
  EXPECT_TRUE(code == FARPAGE_TIMEOUT || code == FARPAGE_UNAVAILABLE) << code;
  EXPECT_EQ(removed, 0u);
  EXPECT_STRNE(farpage_ticket_why(removes.get()), "");
  const auto puts = put(client.get(), pages_in(memory), nullptr, 50'000);
  EXPECT_NE(results(puts)[0].code, FARPAGE_OK);
  EXPECT_STRNE(farpage_ticket_why(puts.get()), "");
}

}  // namespace
}  // namespace farpage
