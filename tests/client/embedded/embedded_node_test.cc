#include "client/embedded/embedded_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "client/farpage.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kTimeoutUs = 20'000'000;

// Named nodes stand in a folder of the test's.
class NamedNodes : public testing::Test {
 protected:
  NamedNodes() { ::setenv("XDG_RUNTIME_DIR", (dir_ / "").c_str(), 1); }
  ~NamedNodes() override { ::unsetenv("XDG_RUNTIME_DIR"); }

  static std::unique_ptr<Farpage> open(const std::string& name) {
    OpenOptions options;
    options.embedded = true;
    options.embedded_node = {.name = name, .pool_bytes = 4 * kMiB, .page_bytes = kPageBytes};
    auto opened = Farpage::open(options);
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(*opened);
  }

  // A page of that byte.
  static void put(Farpage& tier, const PageKey& key, std::byte byte) {
    std::vector<std::byte> page(kPageBytes, byte);
    const Region region = tier.register_memory(page).value();
    const std::array puts = {PutRequest{key, region.slice(0, kPageBytes)}};
    const Ticket ticket = tier.put(puts, kTimeoutUs).value();
    ticket.wait();
    ASSERT_EQ(ticket.results()[0].code, Code::kOk) << ticket.why();
  }
  // Its byte, or the reason why there is none.
  static std::pair<Reason, std::byte> fetch(Farpage& tier, const PageKey& key,
                                            uint64_t timeout_us = kTimeoutUs) {
    std::vector<std::byte> page(kPageBytes);
    const Region region = tier.register_memory(page).value();
    const std::array requests = {PageRequest{key, 0, region.slice(0, kPageBytes)}};
    const Ticket ticket = tier.fetch(requests, timeout_us).value();
    ticket.wait();
    if (ticket.verdicts()[0].verdict != Verdict::kReady) return {ticket.verdicts()[0].reason, {}};
    EXPECT_TRUE(std::ranges::all_of(page, [&](std::byte byte) { return byte == page[0]; }));
    return {Reason::kNone, page[0]};
  }

  TempDir dir_;
  const PageKey key_ = make_page_key("embedded_node_test", "1");
};

TEST_F(NamedNodes, TwoThatOpenOneNameShareItsPages) {
  const auto first = open("a");
  const auto second = open("a");
  const auto other = open("b");
  put(*first, key_, std::byte{7});
  EXPECT_EQ(fetch(*second, key_).second, std::byte{7});
  put(*second, key_, std::byte{8});
  EXPECT_EQ(fetch(*first, key_).second, std::byte{8});
  EXPECT_EQ(fetch(*other, key_).first, Reason::kMiss);
}

TEST_F(NamedNodes, TheNextToOpenItBeginsAnEmptyNodeWhichTheOthersFind) {
  auto first = open("a");
  const auto second = open("a");
  put(*first, key_, std::byte{7});
  EXPECT_EQ(fetch(*second, key_).second, std::byte{7});
  first.reset();
  const auto third = open("a");
  EXPECT_EQ(fetch(*third, key_).first, Reason::kMiss);
  put(*third, key_, std::byte{9});  // once the leases of the former node's clients have ended
  std::byte seen = {};
  while (seen != std::byte{9}) {
    const auto [reason, byte] = fetch(*second, key_, 100'000);
    ASSERT_NE(reason, Reason::kCorrupt);
    seen = byte;
  }
}

// The node goes from one to the other while both open and close it.
TEST_F(NamedNodes, WhoOpensItWhileAnotherClosesItHasANode) {
  std::atomic<bool> is_over = false;
  const auto open_and_close = [] {
    try {
      open("a");
    } catch (const std::runtime_error& error) {
      ADD_FAILURE() << error.what();
    }
  };
  std::thread other([&] {
    while (!is_over) open_and_close();
  });
  for (int i = 0; i < 20; ++i) open_and_close();
  is_over = true;
  other.join();
}

TEST_F(NamedNodes, ItsSizesAreThoseOfTheFirst) {
  const auto first = open("a");
  OpenOptions larger;
  larger.embedded = true;
  larger.embedded_node = {.name = "a", .pool_bytes = 512 * kMiB, .page_bytes = 2 * kPageBytes};
  const auto second = Farpage::open(larger);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ((*second)->page_bytes(), kPageBytes);
}

TEST_F(NamedNodes, TwelveCanShareIt) {
  std::vector<std::unique_ptr<Farpage>> all;
  for (int i = 0; i < 12; ++i) all.push_back(open("a"));
  put(*all.front(), key_, std::byte{5});
  EXPECT_EQ(fetch(*all.back(), key_).second, std::byte{5});
}

TEST_F(NamedNodes, AFileInThePlaceOfTheSocketIsNamed) {
  ::mkdir((dir_ / "farpage").c_str(), 0700);
  std::ofstream(dir_ / "farpage/a.sock") << "no socket";
  EXPECT_THROW(open("a"), std::runtime_error);
}

TEST_F(NamedNodes, AFolderThatOthersMayEnterIsRefused) {
  ::mkdir((dir_ / "farpage").c_str(), 0700);
  ::chmod((dir_ / "farpage").c_str(), 0755);
  const auto refused =
      EmbeddedNode::start({.name = "a", .pool_bytes = 4 * kMiB, .page_bytes = kPageBytes}, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kDenied);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("/farpage is not a folder"));
}

TEST_F(NamedNodes, APoolThatHoldsNoPageIsRefused) {
  const auto refused =
      EmbeddedNode::start({.name = "", .pool_bytes = 100, .page_bytes = kPageBytes}, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace farpage
