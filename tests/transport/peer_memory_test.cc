#include "transport/peer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farpage {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMoreThanAnyHost = uint64_t{1} << 45;

Error refusal(uint64_t bytes, Access access, bool pinned) {
  const auto checked = check_peer_memory(bytes, access, pinned);
  return checked ? Error{Code::kOk, ""} : checked.error();
}

TEST(PeerMemory, PinnedStagingMustFitTheHost) {
  const Error refused = refusal(kMoreThanAnyHost, Access::kRemoteWrite, true);
  EXPECT_EQ(refused.code, Code::kExhausted);
  EXPECT_THAT(refused.message, HasSubstr("the 32 TiB that a client writes to"));
  EXPECT_THAT(refused.message, HasSubstr("lower client.staging_bytes"));
  EXPECT_THAT(refused.message, HasSubstr("node.max_staging_bytes"));
  EXPECT_EQ(refusal(1 << 20, Access::kRemoteWrite, true).code, Code::kOk);
}

// It comes as the client writes, and then nobody can refuse it any more.
TEST(PeerMemory, StagingThatNobodyHasTouchedMustFitTheHost) {
  const Error refused = refusal(kMoreThanAnyHost, Access::kRemoteWrite, false);
  EXPECT_EQ(refused.code, Code::kExhausted);
  EXPECT_THAT(refused.message, HasSubstr("the 32 TiB that a client writes to"));
  EXPECT_THAT(refused.message, HasSubstr("as it writes"));
  EXPECT_THAT(refused.message, HasSubstr("lower client.staging_bytes"));
  EXPECT_EQ(refusal(1 << 20, Access::kRemoteWrite, false).code, Code::kOk);
}

TEST(PeerMemory, PoolsMustFitTheHost) {
  for (const bool pinned : {false, true}) {
    const Error refused = refusal(kMoreThanAnyHost, Access::kRemoteRead, pinned);
    EXPECT_EQ(refused.code, Code::kExhausted);
    EXPECT_THAT(refused.message, HasSubstr("pool_bytes"));
  }
}

TEST(PeerMemory, SizesThatAreNoneAreRefused) {
  for (const uint64_t bytes : {uint64_t{0}, (uint64_t{1} << 46) + 1}) {
    EXPECT_EQ(refusal(bytes, Access::kRemoteRead, true).code, Code::kInvalid);
    EXPECT_EQ(refusal(bytes, Access::kRemoteWrite, true).code, Code::kInvalid);
    EXPECT_EQ(refusal(bytes, Access::kRemoteWrite, false).code, Code::kInvalid);
  }
}

}  // namespace
}  // namespace farpage
