#include "net/socket_rights.h"

#include <grp.h>
#include <gtest/gtest.h>

namespace farpage {
namespace {

std::string refusal(const std::string& mode, const std::string& group = "") {
  const auto rights = SocketRights::parse(mode, group);
  return rights ? "" : rights.error().message;
}

TEST(SocketRights, OwnerAloneUnlessAGroupIsGiven) {
  EXPECT_EQ(SocketRights::parse("", "")->mode, 0600u);
  EXPECT_FALSE(SocketRights::parse("", "")->group.has_value());
  EXPECT_EQ(SocketRights::parse("", "2000")->mode, 0660u);
  EXPECT_EQ(SocketRights::parse("", "2000")->group, 2000u);
}

TEST(SocketRights, ModeIsInOctalDigits) {
  EXPECT_EQ(SocketRights::parse("0660", "")->mode, 0660u);
  EXPECT_EQ(SocketRights::parse("666", "")->mode, 0666u);
  EXPECT_EQ(SocketRights::parse("0777", "")->mode, 0777u);
  EXPECT_EQ(SocketRights::parse("0622", "")->mode, 0622u);
  for (const char* text : {"rw-rw----", "0o660", "0x1b0", "680", "-660", "660 ", "1777", "4660",
                           "99999999999999999999"}) {
    EXPECT_NE(refusal(text).find("octal digits"), std::string::npos) << text;
  }
}

TEST(SocketRights, ThatNobodyCanMeanAreRefusedWithOthers) {
  EXPECT_NE(refusal("0").find("write \"0600\""), std::string::npos) << refusal("0");
  EXPECT_NE(refusal("0060").find("write \"0660\""), std::string::npos);
  EXPECT_NE(refusal("0640").find("write \"0660\", or \"0600\""), std::string::npos);
  EXPECT_NE(refusal("0664").find("write \"0666\", or \"0660\""), std::string::npos);
  EXPECT_NE(refusal("0600", "2000").find("write \"0660\""), std::string::npos);
}

TEST(SocketRights, GroupIsANameOrANumberOfThisMachine) {
  const ::group* root = ::getgrgid(0);
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(SocketRights::parse("", root->gr_name)->group, 0u);
  EXPECT_NE(refusal("", "no-such-group").find("no such group"), std::string::npos);
  EXPECT_NE(refusal("", "4294967295").find("no such group"), std::string::npos);
  EXPECT_NE(refusal("", "12x").find("no such group"), std::string::npos);
}

}  // namespace
}  // namespace farpage
