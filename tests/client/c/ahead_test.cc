// Pages fetched ahead, and counts, in C.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/client/c/c_client.h"

namespace farpage {
namespace {

using testing::HasSubstr;

CClient open_ahead(const std::string& prefetcher = "none") {
  std::string toml = kEmbedded;
  toml += "[ahead]\npages = 32\nprefetcher = \"" + prefetcher + "\"\n";
  return open_client(toml);
}

farpage_statistics_t counts_of(const CClient& client) {
  farpage_statistics_t counts = FARPAGE_STATISTICS_INIT;
  expect_ok(farpage_statistics(client.get(), &counts));
  return counts;
}

// Whether it comes to be so, in all the time that it needs.
bool comes_true(const std::function<bool()>& is_so) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > patience) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(CAhead, AnAnnouncedPageIsNearWhenItIsFetched) {
  auto sources = filled(8, 1);
  auto landed = filled(8, 100);
  const auto client = open_ahead();
  register_all(client.get(), sources);
  register_all(client.get(), landed);
  put_all(client.get(), pages_in(sources));
  const auto keys = keys_up_to(8);
  expect_ok(farpage_announce(client.get(), keys.data(), 8, UINT64_MAX));
  ASSERT_TRUE(comes_true([&] { return counts_of(client).fetched_ahead == 8; }));
  const auto ticket = fetch(client.get(), pages_in(landed));
  for (const auto& verdict : verdicts(ticket)) EXPECT_EQ(verdict.verdict, FARPAGE_READY);
  EXPECT_EQ(landed, sources);
  const farpage_statistics_t counts = counts_of(client);
  EXPECT_EQ(counts.near_ready, 8u);
  EXPECT_EQ(counts.ready, 8u);
  EXPECT_EQ(counts.ready_bytes, landed.size());
  EXPECT_EQ(counts.puts_acknowledged, 8u);

  expect_ok(farpage_announce(client.get(), keys.data(), 8, UINT64_MAX));
  ASSERT_TRUE(comes_true([&] { return counts_of(client).ahead_places == 8; }));
  expect_ok(farpage_withdraw(client.get(), keys.data(), 8));
  EXPECT_TRUE(comes_true([&] { return counts_of(client).ahead_places == 0; }));
}

TEST(CAhead, APrefetcherBringsWhatItExpectsOfAccesses) {
  auto memory = filled(8, 1);
  const auto client = open_ahead("previous_selection");
  register_all(client.get(), memory);
  put_all(client.get(), pages_in(memory));
  const auto keys = keys_up_to(8);
  std::vector<farpage_access_t> accesses(8, FARPAGE_ACCESS_INIT);
  for (size_t i = 0; i < 8; ++i) accesses[i].key = keys[i];
  uint64_t step = 0;
  EXPECT_TRUE(comes_true([&] {
    ++step;
    for (farpage_access_t& access : accesses) access.step = step;
    const auto code = farpage_observe(client.get(), accesses.data(), accesses.size());
    EXPECT_TRUE(code == FARPAGE_OK || code == FARPAGE_EXHAUSTED) << farpage_last_error();
    return counts_of(client).fetched_ahead > 0;
  }));
  expect_ok(farpage_mark_milestones(client.get(), keys.data(), 8));
}

TEST(CAhead, WithoutMemoryForItItIsRefused) {
  const auto client = open_client();
  const auto keys = keys_up_to(1);
  const farpage_access_t access = FARPAGE_ACCESS_INIT;
  for (const auto code : {farpage_announce(client.get(), keys.data(), 1, 0),
                          farpage_withdraw(client.get(), keys.data(), 1),
                          farpage_mark_milestones(client.get(), keys.data(), 1),
                          farpage_observe(client.get(), &access, 1)}) {
    EXPECT_EQ(code, FARPAGE_INVALID);
    EXPECT_THAT(farpage_last_error(), HasSubstr("ahead.pages"));
  }
}

TEST(CAhead, NothingToSayIsSaid) {
  const auto client = open_ahead();
  expect_ok(farpage_announce(client.get(), nullptr, 0, 0));
  expect_ok(farpage_withdraw(client.get(), nullptr, 0));
  expect_ok(farpage_mark_milestones(client.get(), nullptr, 0));
  expect_ok(farpage_observe(client.get(), nullptr, 0));
}

TEST(CAhead, AnAccessThatIsWrong) {
  const auto client = open_ahead();
  std::array<farpage_access_t, 3> accesses;
  accesses.fill(FARPAGE_ACCESS_INIT);
  const auto expect_refused = [&](const char* word) {
    EXPECT_EQ(farpage_observe(client.get(), accesses.data(), 3), FARPAGE_INVALID);
    EXPECT_THAT(farpage_last_error(), HasSubstr(word));
  };
  accesses[1].mark = 5;
  expect_refused("access 1: mark is 5");
  accesses[1].mark = FARPAGE_MARK_CONCLUDES;
  accesses[2].struct_size = 8;
  expect_refused("access 2: struct_size is 8");
  accesses[0].struct_size = 0;
  expect_refused("access 0: struct_size is 0");
}

// As programs have them whose headers are older or newer.
TEST(CAhead, AccessesOfOtherSizes) {
  struct OldAccess {
    size_t struct_size = sizeof(OldAccess);
    farpage_key_t key = {};
    uint64_t step = 1;
  };
  struct NewAccess {
    farpage_access_t known = {sizeof(NewAccess), {}, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    uint64_t unknown = 0;
  };
  const auto client = open_ahead();
  const std::array<OldAccess, 2> old;
  expect_ok(farpage_observe(client.get(), reinterpret_cast<const farpage_access_t*>(&old), 2));
  std::array<NewAccess, 2> fresh;
  expect_ok(farpage_observe(client.get(), &fresh[0].known, 2));
  fresh[1].unknown = 1;
  EXPECT_EQ(farpage_observe(client.get(), &fresh[0].known, 2), FARPAGE_INVALID);
  EXPECT_THAT(farpage_last_error(), HasSubstr("access 1: a field at byte 64 is set"));
}

TEST(CStatistics, FillWhatTheCallerHas) {
  auto memory = filled(2, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  put_all(client.get(), pages_in(memory));
  wait(fetch(client.get(), pages_in(memory)));
  // Of an older program: what lies behind it is not the struct's.
  farpage_statistics_t old = {};
  std::memset(&old, 0xEE, sizeof old);
  const farpage_statistics_t untouched = old;
  constexpr size_t kOld = offsetof(farpage_statistics_t, miss);
  old.struct_size = kOld;
  expect_ok(farpage_statistics(client.get(), &old));
  EXPECT_EQ(old.struct_size, kOld);
  EXPECT_EQ(old.ready, 2u);
  EXPECT_EQ(old.ready_bytes, memory.size());
  EXPECT_EQ(std::memcmp(reinterpret_cast<const char*>(&old) + kOld,
                        reinterpret_cast<const char*>(&untouched) + kOld, sizeof old - kOld),
            0);
  // Of a newer one: fields that the library does not know are 0.
  struct {
    farpage_statistics_t known;
    uint64_t unknown;
  } fresh;
  std::memset(&fresh, 0xEE, sizeof fresh);
  fresh.known.struct_size = sizeof fresh;
  expect_ok(farpage_statistics(client.get(), &fresh.known));
  EXPECT_EQ(fresh.known.ready, 2u);
  EXPECT_EQ(fresh.known.near_ready, 0u);
  EXPECT_EQ(fresh.known.puts_acknowledged, 2u);
  EXPECT_EQ(fresh.unknown, 0u);
  for (const size_t size : {size_t{0}, size_t{8}, sizeof old + 4, SIZE_MAX}) {
    old.struct_size = size;
    EXPECT_EQ(farpage_statistics(client.get(), &old), FARPAGE_INVALID);
    EXPECT_THAT(farpage_last_error(), HasSubstr("struct_size is " + std::to_string(size)));
  }
}

TEST(CFlush, EveryPutBeforeHasItsResult) {
  auto memory = filled(4, 1);
  const auto client = open_client();
  register_all(client.get(), memory);
  std::vector<CTicket> tickets;
  for (int i = 0; i < 8; ++i) tickets.push_back(put(client.get(), pages_in(memory)));
  expect_ok(farpage_flush(client.get(), kTimeoutUs));
  for (const CTicket& ticket : tickets) EXPECT_EQ(farpage_ticket_done(ticket.get()), 1);
  expect_ok(farpage_flush(client.get(), kTimeoutUs));
}

}  // namespace
}  // namespace farpage
