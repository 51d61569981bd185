#include "net/security/token_fingerprint.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(TokenFingerprint, IsTheSameForATokenAndAnotherForAnyOther) {
  const SharedToken token = {"the token of a, for this test"};
  EXPECT_EQ(fingerprint(token), fingerprint({"the token of a, for this test"}));
  EXPECT_NE(fingerprint(token), fingerprint({"the token of b, for this test"}));
  EXPECT_EQ(fingerprint(token).size(), 16U);
  EXPECT_EQ(fingerprint(token).find_first_not_of("0123456789abcdef"), std::string::npos);
}
TEST(TokenFingerprint, StaysTheSameFromVersionToVersionSoThatHeldPagesAreFoundAgain) {
  // HMAC-SHA256 as Python's hmac has it, of "farpage VERSION fingerprint 0:" and zeros.
  EXPECT_EQ(fingerprint({"the token of a, for this test"}), "5f85ac114b8faae6");
}

}  // namespace
}  // namespace farpage
