#include <fmt/format.h>
#include <gtest/gtest.h>

#include "control/codec.h"

// The protocol as bytes: older and newer programs talk to each other, so none of these may change.
namespace farpage {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

std::string request(Request request) {
  return hex(encode(NumberedRequest{1, std::move(request)}).body);
}

std::string reply(Reply reply) {
  return hex(encode(NumberedReply{1, std::move(reply)}).body);
}

TEST(CodecBytes, OfRequests) {
  EXPECT_EQ(request(HelloRequest{1, 2, 3, 4, 5, {6, 7}}),
            "08011225080110021803210400000000000000290500000000000000320b0806110700000000000000");
  EXPECT_EQ(request(OpenLaneRequest{1}), "08011a020801");
  EXPECT_EQ(request(CommitRequest{1, 2, {{{3, 4}, 5, 6, 7}}, {8, 9}}),
            "080122330d0100000010021a1d0a1209030000000000000011040000000000000010051806250700000022"
            "0b0808110900000000000000");
  EXPECT_EQ(request(RemoveRequest{{{1, 2}}, {3, 4}, 5}),
            "08012a230a12090100000000000000110200000000000000120b08031104000000000000001805");
  EXPECT_EQ(request(RenewRequest{1, {2, 3, 4, 5, 6, 7, 8, 9, 10}}),
            "0801321d090100000000000000121208021003180420052806300738084009480a");
  EXPECT_EQ(request(StatusRequest{}), "08013a00");
  EXPECT_EQ(request(OpenPushRequest{1,
                                    {ChannelPurpose::kStage, "a", {}},
                                    {2, Access::kRemoteWrite, {MemoryKind::kCuda, 3}, "b", {}}}),
            "080142160801120508011201611a0b08021002180120032a0162");
  EXPECT_EQ(request(PushRequest{1, 2, 3, 4, {{{5, 6}, 7}}}),
            "08014a2308011502000000180320042a160a120905000000000000001106000000000000001007");
  EXPECT_EQ(request(ReplicateRequest{{1, 2}, {{{{3, 4}, 5, 6, 7, true}, true}}, 8}),
            "080152380a0b080111020000000000000012270a230a120903000000000000001104000000000000001105"
            "0000000000000018062007280110011808");
  EXPECT_EQ(request(EpochRequest{}), "08017a020a00");
  EXPECT_EQ(request(EpochRequest{{1, 2}}), "08017a0d0a0b0801110200000000000000");
  EXPECT_EQ(request(HoldingsRequest{{1, 2}, {{3, 4}}, 5, 6}),
            "08015a250a0b0801110200000000000000121209030000000000000011040000000000000018052006");
  EXPECT_EQ(request(ReportRequest{{{1, 2}}}), "080162140a12090100000000000000110200000000000000");
}

// As programs send it that know no questions which wait.
TEST(CodecBytes, OfAQuestionWithoutAKnownEpoch) {
  const auto decoded = decode_request(Frame{"\x08\x01\x7a", {}});
  EXPECT_FALSE(decoded) << "cut short";
  const auto whole = decode_request(Frame{std::string("\x08\x01\x7a\x00", 4), {}});
  ASSERT_TRUE(whole);
  EXPECT_EQ(std::get<EpochRequest>(whole->request).known, EpochTag{});
}

TEST(CodecBytes, OfReplies) {
  EXPECT_EQ(reply(Refusal{Code::kExhausted, "a", {1, 2}}),
            "0801121208061201611a0b0801110200000000000000");
  EXPECT_EQ(
      reply(HelloReply{
          1, 2, 3, 4, 5, 6, 7, 8, {ChannelPurpose::kStage, "a", {}}, {}, "b", 9, {10, 11}, 12, 13}),
      "08011a4a08011002190300000000000000200428053006380740084a050801120161520d100120ffffffffffffff"
      "ffff015a01626109000000000000006a0b080a110b00000000000000700c780d");
  EXPECT_EQ(
      reply(OpenLaneReply{
          1, {}, {}, {}, RegionExport{2, Access::kRemoteRead, {MemoryKind::kHost, 0}, "a", {}}}),
      "0801222b08011200220d100120ffffffffffffffffff012a0d100120ffffffffffffffffff013a07080210012a01"
      "61");
  EXPECT_EQ(reply(CommitReply{{{Code::kOk, 1}, {Code::kAborted, 0}}}), "08012a080a0210010a020808");
  EXPECT_EQ(reply(RemoveReply{1}), "080132020801");
  EXPECT_EQ(reply(RenewReply{1}), "08013a0b0901000000000000001200");
  EXPECT_EQ(reply(RenewReply{1, {2, 3}, 4}),
            "08013a18090100000000000000120b08021103000000000000001804");
  EXPECT_EQ(
      reply(EpochReply{{1, 2}, 3, 4, 5, 6, {{7, 8, true, 9, "a"}}}),
      "08018201370a0b080111020000000000000010031804210500000000000000280632190907000000000000001108"
      "00000000000000180120092a0161");
  EXPECT_EQ(reply(OpenPushReply{1}), "08014a020801");
  EXPECT_EQ(reply(PushReply{{Code::kOk, Code::kNotFound}}), "080152040a020002");
  EXPECT_EQ(reply(ReplicateReply{{Code::kOtherEpoch}}), "08015a030a010b");
  EXPECT_EQ(
      reply(HoldingsReply{{{{1, 2}, 3, 4, 5, true}}, 6, true}),
      "080162290a230a1209010000000000000011020000000000000011030000000000000018042005280110061801");
  EXPECT_EQ(reply(ReportReply{1, 2}), "08016a0408011002");
  EXPECT_EQ(reply(StatusReply{}), "0801420c9a0100c20100ca0100da0100");
  StatusReply member;
  member.fleet.node = 1;
  EXPECT_EQ(reply(member), "080142189a0100ba0109090100000000000000c20100ca0100da0100");
}

}  // namespace
}  // namespace farpage
