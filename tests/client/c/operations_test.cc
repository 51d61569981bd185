#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/client/c/c_client.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

TEST(CApi, PagesComeBackAsTheyWerePut) {
  auto sources = filled(16, 1);
  auto landed = filled(16, 100);
  const auto client = open_client();
  EXPECT_EQ(farpage_page_bytes(client.get()), kPageBytes);
  register_all(client.get(), sources);
  register_all(client.get(), landed);
  put_all(client.get(), pages_in(sources));
  const auto ticket = fetch(client.get(), pages_in(landed));
  ASSERT_EQ(verdicts(ticket).size(), 16u);
  for (const auto& verdict : verdicts(ticket)) {
    EXPECT_EQ(verdict.verdict, FARPAGE_READY);
    EXPECT_EQ(verdict.reason, FARPAGE_REASON_NONE);
    EXPECT_EQ(verdict.held, 0u);
    EXPECT_GT(verdict.version, 0u);
    EXPECT_GT(verdict.took_ns, 0u);
  }
  EXPECT_EQ(landed, sources);
}

TEST(CApi, PagesThatNobodyPutAreToBeRecomputed) {
  auto landed = filled(2, 7);
  const auto client = open_client();
  register_all(client.get(), landed);
  const auto ticket = fetch(client.get(), pages_in(landed));
  for (const auto& verdict : verdicts(ticket)) {
    EXPECT_EQ(verdict.verdict, FARPAGE_RECOMPUTE);
    EXPECT_EQ(verdict.reason, FARPAGE_REASON_MISS);
    EXPECT_EQ(verdict.version, 0u);
  }
}

TEST(CApi, AVersionThatIsTooOldIsStale) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  auto pages = pages_in(memory);
  const auto first = put(client.get(), pages);
  wait(first);
  const auto second = put(client.get(), pages);
  const uint64_t version = results(second)[0].version;
  EXPECT_LT(results(first)[0].version, version);
  pages[0].min_version = version;
  EXPECT_EQ(verdicts(fetch(client.get(), pages))[0].version, version);
  pages[0].min_version = version + 1;
  const auto stale = fetch(client.get(), pages);
  EXPECT_EQ(verdicts(stale)[0].verdict, FARPAGE_RECOMPUTE);
  EXPECT_EQ(verdicts(stale)[0].reason, FARPAGE_REASON_STALE);
}

TEST(CApi, RemovedPagesAreGone) {
  auto memory = filled(3, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  put_all(client.get(), pages_in(memory));
  const std::array removed = {key_of("0"), key_of("2"), key_of("absent")};
  farpage_ticket_t* made = nullptr;
  expect_ok(farpage_remove(client.get(), removed.data(), 3, kTimeoutUs, nullptr, &made));
  const CTicket remove(made);
  wait(remove);
  uint64_t count = 0;
  expect_ok(farpage_ticket_removed(remove.get(), &count));
  EXPECT_EQ(count, 2u);
  EXPECT_STREQ(farpage_ticket_why(remove.get()), "");

  const auto keys = keys_up_to(3);
  expect_ok(farpage_exists(client.get(), keys.data(), 3, kTimeoutUs, nullptr, &made));
  const CTicket exists(made);
  EXPECT_EQ(verdicts(exists)[0].verdict, FARPAGE_RECOMPUTE);
  EXPECT_EQ(verdicts(exists)[1].verdict, FARPAGE_READY);
  EXPECT_EQ(verdicts(exists)[2].verdict, FARPAGE_RECOMPUTE);
  for (const auto& verdict : verdicts(exists)) EXPECT_GT(verdict.took_ns, 0u);
}

TEST(CApi, LeadingCountsUpToTheFirstHole) {
  auto memory = filled(5, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  put_all(client.get(), pages_in(memory));
  const auto keys = keys_up_to(9);
  uint64_t leading = 0;
  expect_ok(farpage_leading(client.get(), keys.data(), keys.size(), kTimeoutUs, &leading));
  EXPECT_EQ(leading, 5u);
  expect_ok(farpage_leading(client.get(), keys.data() + 5, 4, kTimeoutUs, &leading));
  EXPECT_EQ(leading, 0u);
  expect_ok(farpage_leading(client.get(), nullptr, 0, kTimeoutUs, &leading));
  EXPECT_EQ(leading, 0u);
}

TEST(CApi, NoPagesAreDoneAtOnce) {
  const auto client = open_client();
  const auto ticket = fetch(client.get(), {});
  EXPECT_EQ(verdicts(ticket).size(), 0u);
  EXPECT_EQ(results(put(client.get(), {})).size(), 0u);
}

TEST(CApi, APageLongerThanTheNodesTakeIsAResult) {
  std::vector<uint8_t> memory(2 * kPageBytes);
  const auto client = open_client();
  register_all(client.get(), memory);
  auto pages = pages_in(memory);
  pages.resize(1);
  pages[0].bytes = 2 * kPageBytes;
  EXPECT_EQ(results(put(client.get(), pages))[0].code, FARPAGE_INVALID);
  EXPECT_EQ(verdicts(fetch(client.get(), pages))[0].verdict, FARPAGE_RECOMPUTE);
}

TEST(CApi, ATimeoutOfNothingIsAVerdictAtOnce) {
  auto memory = filled(1, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  const auto fetched = fetch(client.get(), pages_in(memory), nullptr, 0);
  EXPECT_EQ(verdicts(fetched)[0].reason, FARPAGE_REASON_STALLED);
  const auto stored = put(client.get(), pages_in(memory), nullptr, 0);
  EXPECT_NE(results(stored)[0].code, FARPAGE_OK);
}

// sha256(length of the namespace, 8 bytes little endian, then both), by another program.
TEST(CApi, KeysAreTheDocumentedDigest) {
  const auto hex = [](std::string_view name_space, std::string_view name) {
    farpage_key_t key;
    expect_ok(farpage_key(name_space.data(), name_space.size(), name.data(), name.size(), &key));
    std::string text;
    for (const uint8_t byte : key.bytes) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  };
  EXPECT_EQ(hex("model-7b/bf16", "page 1"), "ff4f2c751045a8dbcc8a6538baf154cf");
  EXPECT_EQ(hex({nullptr, 0}, {nullptr, 0}), "af5570f5a1810b7af78caf4bc70a660f");
  EXPECT_EQ(hex({"a\0b", 3}, {"\xff\0", 2}), "adbf7174818c28bc9141b016e4605a0f");
}

TEST(CApi, TwoClientsShareNothing) {
  auto memory = filled(2, 1);
  auto other_memory = filled(2, 1);
  const auto client = open_client();
  const auto other = open_client();
  register_all(client.get(), memory);
  register_all(other.get(), other_memory);
  put_all(client.get(), pages_in(memory));
  EXPECT_EQ(verdicts(fetch(other.get(), pages_in(other_memory)))[0].reason, FARPAGE_REASON_MISS);
  EXPECT_EQ(verdicts(fetch(client.get(), pages_in(memory)))[0].verdict, FARPAGE_READY);
}

TEST(CApi, ManyThreadsShareOne) {
  auto memory = filled(64, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  put_all(client.get(), pages_in(memory));
  const auto expected = memory;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        auto landed = filled(8, 200);
        farpage_region_t* region = register_all(client.get(), landed);
        const auto ticket = fetch(client.get(), pages_in(landed));
        for (const auto& verdict : verdicts(ticket)) {
          if (verdict.verdict != FARPAGE_READY) ++wrong;
        }
        if (!std::ranges::equal(landed, std::span(expected).first(landed.size()))) ++wrong;
        expect_ok(farpage_ticket_wait_released(ticket.get(), kTimeoutUs));
        expect_ok(farpage_unregister(region));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CApi, OptionsComeFromAFileToo) {
  const TempDir folder;
  const std::string path = folder.path() + "/client.toml";
  std::ofstream(path) << kEmbedded;
  farpage_t* client = nullptr;
  expect_ok(farpage_open_file(path.c_str(), &client));
  EXPECT_EQ(farpage_page_bytes(client), kPageBytes);
  expect_ok(farpage_close(client));
  const char* const overrides[] = {"embedded.page_bytes=8192", "client.lanes=1"};
  expect_ok(farpage_open_overridden(path.c_str(), overrides, 2, &client));
  EXPECT_EQ(farpage_page_bytes(client), 8192u);
  expect_ok(farpage_close(client));
  expect_ok(farpage_open_overridden(path.c_str(), nullptr, 0, &client));
  EXPECT_EQ(farpage_page_bytes(client), kPageBytes);
  expect_ok(farpage_close(client));
  const char* const unknown[] = {"client.lane=1"};
  EXPECT_EQ(farpage_open_overridden(path.c_str(), unknown, 1, &client), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), testing::HasSubstr("did you mean 'lanes'?"));
  EXPECT_NE(farpage_open_file((path + ".absent").c_str(), &client), FARPAGE_OK);
  EXPECT_EQ(client, nullptr);
  EXPECT_THAT(farpage_last_error(), testing::HasSubstr("client.toml.absent"));
}

TEST(CApi, OpenedAndClosedAgainAndAgain) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(farpage_page_bytes(open_client().get()), kPageBytes);
  }
  EXPECT_EQ(descriptors(), before);
}

TEST(CApi, NamesOfEveryNumber) {
  EXPECT_STREQ(farpage_version(), FARPAGE_VERSION);
  EXPECT_STREQ(farpage_code_name(FARPAGE_OK), "ok");
  EXPECT_STREQ(farpage_code_name(FARPAGE_TIMEOUT), "timed out");
  EXPECT_STREQ(farpage_code_name(FARPAGE_SYSTEM), "system error");
  EXPECT_STREQ(farpage_code_name(FARPAGE_BUSY), "busy");
  EXPECT_STREQ(farpage_reason_name(FARPAGE_REASON_MISS), "miss");
  EXPECT_STREQ(farpage_reason_name(FARPAGE_REASON_SLOWER), "slower");
  EXPECT_STREQ(farpage_verdict_name(FARPAGE_READY), "ready");
  EXPECT_STREQ(farpage_verdict_name(FARPAGE_RECOMPUTE), "recompute");
}

}  // namespace
}  // namespace farpage
