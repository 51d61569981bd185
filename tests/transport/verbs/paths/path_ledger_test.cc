#include "transport/verbs/paths/path_ledger.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace farpage::verbs {
namespace {

constexpr size_t kAnyDevice = 0;  // of none
constexpr uint32_t kStrangers = 0x0a060000;

Endpoint host(uint32_t address) {
  Endpoint made;
  auto& four = reinterpret_cast<sockaddr_in&>(made.storage);
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(address);
  made.bytes = sizeof four;
  return made;
}

class VerbsPathLedger : public testing::Test {
 protected:
  void fail_at_strangers(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) ledger_.failed(kAnyDevice, host(kStrangers + i));
  }
  bool knows(uint32_t address) const {
    const auto paths = ledger_.paths();
    return std::any_of(paths.begin(), paths.end(), [&](const PathUse& use) {
      return use.path == "any device -> " + host(address).host();
    });
  }

  static constexpr uint32_t kMost = PathLedger::kMost;
  PathLedger ledger_{std::make_shared<const Devices>()};
};

// A client may offer the node addresses without end, to be dialled.
TEST_F(VerbsPathLedger, AddressesWithoutEndTakeNoMemoryWithoutEnd) {
  fail_at_strangers(0, 2 * kMost);
  EXPECT_EQ(ledger_.paths().size(), kMost);
  EXPECT_FALSE(knows(kStrangers + kMost - 1));
  EXPECT_TRUE(knows(kStrangers + kMost)) << "the last are kept";
}

TEST_F(VerbsPathLedger, WhatIsHeardOfAgainIsNotTheOldest) {
  fail_at_strangers(0, kMost);
  fail_at_strangers(0, 1);
  fail_at_strangers(kMost, kMost + 1);
  EXPECT_TRUE(knows(kStrangers));
  EXPECT_FALSE(knows(kStrangers + 1));
}

TEST_F(VerbsPathLedger, WhoHasConnectedStaysBeforeStrangers) {
  constexpr uint32_t kHonest = 0x0a000001;
  ledger_.connected(kAnyDevice, host(kHonest))->read_bytes.add(4'096);
  fail_at_strangers(0, 2 * kMost);
  const auto paths = ledger_.paths();
  const auto honest = std::find_if(paths.begin(), paths.end(),
                                   [](const PathUse& use) { return use.connected == 1; });
  ASSERT_NE(honest, paths.end());
  EXPECT_EQ(honest->path, "any device -> 10.0.0.1");
  EXPECT_EQ(honest->read_bytes, 4'096u);
}

TEST_F(VerbsPathLedger, WhoHasConnectedGoesForWhoIsConnected) {
  constexpr uint32_t kGone = 0x0a000001;
  ledger_.connected(kAnyDevice, host(kGone));
  std::vector<std::shared_ptr<PathCounters>> open;
  for (uint32_t i = 0; i < kMost; ++i) {
    open.push_back(ledger_.connected(kAnyDevice, host(kStrangers + i)));
  }
  EXPECT_FALSE(knows(kGone));
  open.push_back(ledger_.connected(kAnyDevice, host(kGone)));
  EXPECT_EQ(ledger_.paths().size(), kMost + 1) << "what is open is never forgotten";
}

}  // namespace
}  // namespace farpage::verbs
