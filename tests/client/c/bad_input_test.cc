#include <gmock/gmock.h>

#include <thread>

#include "tests/client/c/c_client.h"

namespace farpage {
namespace {

using testing::HasSubstr;

void expect_invalid(farpage_code_t code, const char* word) {
  EXPECT_EQ(code, FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr(word));
}

class CBadInput : public testing::Test {
 protected:
  CBadInput() { register_all(client_.get(), memory_); }

  void expect_refused(const std::vector<farpage_page_t>& pages, const char* word) {
    for (const auto call : {farpage_fetch, farpage_put}) {
      ticket_ = reinterpret_cast<farpage_ticket_t*>(this);
      expect_invalid(call(client_.get(), pages.data(), pages.size(), 0, nullptr, &ticket_), word);
      EXPECT_EQ(ticket_, nullptr);
    }
  }

  std::vector<uint8_t> memory_ = filled(2, 1);
  CClient client_ = open_client();
  std::vector<farpage_page_t> pages_ = pages_in(memory_);
  std::vector<farpage_key_t> keys_ = keys_up_to(2);
  farpage_ticket_t* ticket_ = nullptr;
};

TEST_F(CBadInput, NullWhereAClientMustStand) {
  uint64_t leading = 0;
  farpage_region_t* region = nullptr;
  expect_invalid(farpage_open(nullptr, nullptr), "client is null");
  expect_invalid(farpage_open(kEmbedded, nullptr), "client is null");
  farpage_t* opened = nullptr;
  expect_invalid(farpage_open(nullptr, &opened), "toml_text is null");
  expect_invalid(farpage_open_file(nullptr, &opened), "path is null");
  expect_invalid(farpage_open_file("client.toml", nullptr), "client is null");
  const char* const none[] = {"client.lanes=1", nullptr};
  expect_invalid(farpage_open_overridden(nullptr, none, 1, &opened), "path is null");
  expect_invalid(farpage_open_overridden("client.toml", none, 1, nullptr), "client is null");
  expect_invalid(farpage_open_overridden("client.toml", nullptr, 1, &opened), "overrides is null");
  expect_invalid(farpage_open_overridden("client.toml", none, 2, &opened), "overrides is null");
  EXPECT_EQ(farpage_page_bytes(nullptr), 0u);
  EXPECT_THAT(farpage_last_error(), HasSubstr("client is null"));
  expect_invalid(farpage_register(nullptr, memory_.data(), 1, &region), "client is null");
  expect_invalid(farpage_fetch(nullptr, pages_.data(), 2, 0, nullptr, &ticket_), "client is null");
  expect_invalid(farpage_put(nullptr, pages_.data(), 2, 0, nullptr, &ticket_), "client is null");
  expect_invalid(farpage_remove(nullptr, keys_.data(), 2, 0, nullptr, &ticket_), "client is null");
  expect_invalid(farpage_exists(nullptr, keys_.data(), 2, 0, nullptr, &ticket_), "client is null");
  expect_invalid(farpage_leading(nullptr, keys_.data(), 2, 0, &leading), "client is null");
  expect_invalid(farpage_flush(nullptr, 0), "client is null");
  expect_invalid(farpage_announce(nullptr, keys_.data(), 2, 0), "client is null");
  expect_invalid(farpage_withdraw(nullptr, keys_.data(), 2), "client is null");
  expect_invalid(farpage_mark_milestones(nullptr, keys_.data(), 2), "client is null");
  const farpage_access_t access = FARPAGE_ACCESS_INIT;
  expect_invalid(farpage_observe(nullptr, &access, 1), "client is null");
  farpage_statistics_t statistics = FARPAGE_STATISTICS_INIT;
  expect_invalid(farpage_statistics(nullptr, &statistics), "client is null");
}

TEST_F(CBadInput, NullWhereSomethingElseMustStand) {
  farpage_t* client = client_.get();
  uint64_t leading = 0;
  farpage_key_t key;
  expect_invalid(farpage_register(client, memory_.data(), 1, nullptr), "region is null");
  farpage_region_t* region = nullptr;
  expect_invalid(farpage_register(client, nullptr, 1, &region), "data is null");
  expect_invalid(farpage_key("a", 1, "b", 1, nullptr), "key is null");
  expect_invalid(farpage_key(nullptr, 1, "b", 1, &key), "name_space is null");
  expect_invalid(farpage_key("a", 1, nullptr, 1, &key), "name is null");
  expect_invalid(farpage_fetch(client, nullptr, 2, 0, nullptr, &ticket_), "pages is null");
  expect_invalid(farpage_fetch(client, pages_.data(), 2, 0, nullptr, nullptr), "ticket is null");
  expect_invalid(farpage_put(client, nullptr, 2, 0, nullptr, &ticket_), "pages is null");
  expect_invalid(farpage_put(client, pages_.data(), 2, 0, nullptr, nullptr), "ticket is null");
  expect_invalid(farpage_remove(client, nullptr, 2, 0, nullptr, &ticket_), "keys is null");
  expect_invalid(farpage_remove(client, keys_.data(), 2, 0, nullptr, nullptr), "ticket is null");
  expect_invalid(farpage_exists(client, nullptr, 2, 0, nullptr, &ticket_), "keys is null");
  expect_invalid(farpage_exists(client, keys_.data(), 2, 0, nullptr, nullptr), "ticket is null");
  expect_invalid(farpage_leading(client, nullptr, 2, 0, &leading), "keys is null");
  expect_invalid(farpage_leading(client, keys_.data(), 2, 0, nullptr), "leading is null");
  expect_invalid(farpage_announce(client, nullptr, 2, 0), "keys is null");
  expect_invalid(farpage_withdraw(client, nullptr, 2), "keys is null");
  expect_invalid(farpage_mark_milestones(client, nullptr, 2), "keys is null");
  expect_invalid(farpage_observe(client, nullptr, 1), "accesses is null");
  expect_invalid(farpage_statistics(client, nullptr), "statistics is null");
}

TEST_F(CBadInput, MoreThanOneCallTakes) {
  farpage_t* client = client_.get();
  uint64_t leading = 0;
  constexpr const char* kWord = "one call takes 16777216";
  for (const size_t count : {SIZE_MAX, SIZE_MAX / 16, (size_t{1} << 24) + 1}) {
    for (const auto call : {farpage_fetch, farpage_put}) {
      expect_invalid(call(client, pages_.data(), count, 0, nullptr, &ticket_), kWord);
    }
    for (const auto call : {farpage_remove, farpage_exists}) {
      expect_invalid(call(client, keys_.data(), count, 0, nullptr, &ticket_), kWord);
    }
    expect_invalid(farpage_leading(client, keys_.data(), count, 0, &leading), kWord);
    expect_invalid(farpage_announce(client, keys_.data(), count, 0), kWord);
    expect_invalid(farpage_withdraw(client, keys_.data(), count), kWord);
    expect_invalid(farpage_mark_milestones(client, keys_.data(), count), kWord);
    const farpage_access_t access = FARPAGE_ACCESS_INIT;
    expect_invalid(farpage_observe(client, &access, count), kWord);
  }
}

TEST_F(CBadInput, NullWhereATicketMustStand) {
  const farpage_page_verdict_t* verdicts = nullptr;
  const farpage_put_result_t* results = nullptr;
  size_t count = 0;
  uint64_t removed = 0;
  EXPECT_EQ(farpage_ticket_done(nullptr), -1);
  EXPECT_EQ(farpage_ticket_released(nullptr), -1);
  EXPECT_THAT(farpage_last_error(), HasSubstr("ticket is null"));
  expect_invalid(farpage_ticket_wait(nullptr, 0), "ticket is null");
  expect_invalid(farpage_ticket_wait_released(nullptr, 0), "ticket is null");
  expect_invalid(farpage_ticket_verdicts(nullptr, &verdicts, &count), "ticket is null");
  expect_invalid(farpage_ticket_results(nullptr, &results, &count), "ticket is null");
  expect_invalid(farpage_ticket_removed(nullptr, &removed), "ticket is null");
  EXPECT_STREQ(farpage_ticket_why(nullptr), "");
  const auto ticket = fetch(client_.get(), pages_);
  expect_invalid(farpage_ticket_verdicts(ticket.get(), nullptr, &count), "verdicts is null");
  expect_invalid(farpage_ticket_verdicts(ticket.get(), &verdicts, nullptr), "count is null");
  expect_invalid(farpage_ticket_results(ticket.get(), nullptr, &count), "results is null");
  expect_invalid(farpage_ticket_results(ticket.get(), &results, nullptr), "count is null");
  expect_invalid(farpage_ticket_removed(ticket.get(), nullptr), "removed is null");
}

TEST_F(CBadInput, NullWhereCompletionsMustStand) {
  uint64_t tag = 0;
  size_t taken = 0;
  expect_invalid(farpage_completions_new(nullptr), "completions is null");
  EXPECT_EQ(farpage_completions_fd(nullptr), -1);
  expect_invalid(farpage_completions_take(nullptr, &tag, 1, &taken), "completions is null");
  const auto completions = make_completions();
  expect_invalid(farpage_completions_take(completions.get(), nullptr, 1, &taken), "tags is null");
  expect_invalid(farpage_completions_take(completions.get(), &tag, 1, nullptr), "taken is null");
}

TEST_F(CBadInput, WhatEndsAHandleTakesNull) {
  expect_ok(farpage_close(nullptr));
  expect_ok(farpage_unregister(nullptr));
  farpage_ticket_free(nullptr);
  farpage_completions_free(nullptr);
}

TEST_F(CBadInput, OptionsThatAreWrong) {
  farpage_t* client = client_.get();
  expect_invalid(farpage_open("", &client), "client.embedded = true");
  EXPECT_EQ(client, nullptr);
  expect_invalid(farpage_open("[client]\nembeded = true\n", &client), "embedded");
  expect_invalid(farpage_open("[client", &client), "configuration");
  EXPECT_NE(farpage_open("[client]\nnode = \"/nowhere/farpage.sock\"\nconnect_ms = 50\n", &client),
            FARPAGE_OK);
  EXPECT_THAT(farpage_last_error(), HasSubstr("/nowhere/farpage.sock"));
}

TEST_F(CBadInput, MemoryThatIsNone) {
  farpage_region_t* region = nullptr;
  std::vector<uint8_t> other(64);
  expect_invalid(farpage_register(client_.get(), other.data(), 0, &region), "0 bytes");
  expect_invalid(farpage_register(client_.get(), other.data(), UINT64_MAX, &region), "no memory");
}

TEST_F(CBadInput, APageWithoutMemoryOrLength) {
  auto pages = pages_;
  pages[1].data = nullptr;
  expect_refused(pages, "page 1: data is null");
  pages = pages_;
  pages[0].bytes = 0;
  expect_refused(pages, "page 0: bytes is 0");
}

TEST_F(CBadInput, APageOutsideOfARegion) {
  std::vector<uint8_t> elsewhere(kPageBytes);
  auto pages = pages_;
  pages[1].data = elsewhere.data();
  expect_refused(pages, "page 1: ");
  EXPECT_THAT(farpage_last_error(), HasSubstr("farpage_register()"));
  pages = pages_;
  pages[1].data = memory_.data() + kPageBytes + 1;  // its last byte lies outside
  expect_refused(pages, "page 1: ");
  pages[1].data = memory_.data() - 1;
  expect_refused(pages, "page 1: ");
  pages[1].data = memory_.data();
  pages[1].bytes = UINT64_MAX;
  expect_refused(pages, "page 1: ");
}

TEST_F(CBadInput, APutWithAVersion) {
  pages_[1].min_version = 7;
  expect_invalid(farpage_put(client_.get(), pages_.data(), 2, 0, nullptr, &ticket_),
                 "page 1: min_version");
}

TEST_F(CBadInput, MoreThanMayBeUnderWay) {
  const auto client = open_client("[client]\nembedded = true\nlanes = 1\nqueue_depth = 1\n");
  const auto first = fetch(client.get(), {});
  EXPECT_EQ(farpage_fetch(client.get(), nullptr, 0, 0, nullptr, &ticket_), FARPAGE_EXHAUSTED);
  EXPECT_THAT(farpage_last_error(), HasSubstr("client.queue_depth"));
  EXPECT_EQ(ticket_, nullptr);
}

TEST_F(CBadInput, NumbersThatNoHeaderHas) {
  EXPECT_STREQ(farpage_code_name(static_cast<farpage_code_t>(11)), "unknown");
  EXPECT_STREQ(farpage_code_name(static_cast<farpage_code_t>(15)), "unknown");
  EXPECT_STREQ(farpage_reason_name(static_cast<farpage_reason_t>(7)), "unknown");
  EXPECT_STREQ(farpage_verdict_name(static_cast<farpage_verdict_t>(0)), "unknown");
}

TEST_F(CBadInput, EachThreadHasItsOwnSentence) {
  expect_invalid(farpage_open("", nullptr), "client is null");
  std::thread([] {
    EXPECT_STREQ(farpage_last_error(), "");
    expect_invalid(farpage_key("", 0, "", 0, nullptr), "key is null");
  }).join();
  EXPECT_THAT(farpage_last_error(), HasSubstr("client is null"));
}

}  // namespace
}  // namespace farpage
