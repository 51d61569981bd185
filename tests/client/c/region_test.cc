#include <gmock/gmock.h>

#include "tests/client/c/c_client.h"
#include "tests/client/c/held_callback.h"

namespace farpage {
namespace {

using testing::HasSubstr;

TEST(CRegion, OneThatATicketLendsIsBusy) {
  auto memory = filled(2, 1);
  auto other = filled(1, 1);
  const auto client = open_client();
  farpage_region_t* lent = register_all(client.get(), memory);
  farpage_region_t* idle = register_all(client.get(), other);
  HeldCallback held;
  const auto ticket = fetch(client.get(), pages_in(memory), held.notification());
  held.wait_entered();
  EXPECT_EQ(farpage_ticket_done(ticket.get()), 1);
  EXPECT_EQ(farpage_ticket_released(ticket.get()), 0);
  EXPECT_EQ(farpage_unregister(lent), FARPAGE_BUSY);
  EXPECT_THAT(farpage_last_error(), HasSubstr("farpage_ticket_wait_released()"));
  expect_ok(farpage_unregister(idle));
  held.let_go();
  expect_ok(farpage_ticket_wait_released(ticket.get(), kTimeoutUs));
  expect_ok(farpage_unregister(lent));  // though the ticket is not freed
  EXPECT_EQ(verdicts(ticket).size(), 2u);
}

TEST(CRegion, WhatIsUnregisteredIsNoMoreOne) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  farpage_region_t* region = register_all(client.get(), memory);
  expect_ok(farpage_unregister(region));
  farpage_ticket_t* ticket = nullptr;
  const auto pages = pages_in(memory);
  EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 1, 0, nullptr, &ticket), FARPAGE_INVALID);
  register_all(client.get(), memory);
  EXPECT_EQ(verdicts(fetch(client.get(), pages)).size(), 1u);
}

TEST(CRegion, NoByteIsOfTwo) {
  auto memory = filled(4, 1);
  const auto client = open_client();
  register_all(client.get(), std::span(memory).subspan(kPageBytes, 2 * kPageBytes));
  const auto code_of = [&](size_t first, size_t count) {
    farpage_region_t* region = nullptr;
    return farpage_register(client.get(), memory.data() + first, count, &region);
  };
  EXPECT_EQ(code_of(0, kPageBytes + 1), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(0, 4 * kPageBytes), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(kPageBytes, 1), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(2 * kPageBytes, kPageBytes), FARPAGE_EXISTS);
  EXPECT_EQ(code_of(3 * kPageBytes - 1, 2), FARPAGE_EXISTS);
  EXPECT_THAT(farpage_last_error(), HasSubstr("registered already"));
  EXPECT_EQ(code_of(0, kPageBytes), FARPAGE_OK);
  EXPECT_EQ(code_of(3 * kPageBytes, kPageBytes), FARPAGE_OK);
}

TEST(CRegion, APageLiesInOne) {
  auto memory = filled(4, 1);
  const auto client = open_client();
  register_all(client.get(), std::span(memory).first(2 * kPageBytes));
  register_all(client.get(), std::span(memory).last(2 * kPageBytes));
  auto pages = pages_in(memory);
  put_all(client.get(), pages);  // of both, one after the other
  pages[1].data = memory.data() + 2 * kPageBytes - 1;
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_fetch(client.get(), pages.data(), 4, 0, nullptr, &ticket), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("page 1: "));
}

TEST(CRegion, IsOfOneClient) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  const auto other = open_client();
  register_all(client.get(), memory);
  const auto pages = pages_in(memory);
  farpage_ticket_t* ticket = nullptr;
  EXPECT_EQ(farpage_fetch(other.get(), pages.data(), 1, 0, nullptr, &ticket), FARPAGE_INVALID);
}

}  // namespace
}  // namespace farpage
