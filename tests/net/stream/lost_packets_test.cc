#include "net/stream/lost_packets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "base/unique_fd.h"

namespace farpage {
namespace {

// A greeting of 120 bytes has passed, and 64 KiB wait behind it.
const SentBytes kHole = {1448, 120, 65'536, 1, false};

TEST(LostPackets, PathThatOnlySmallMessagesPassIsNamedWithBothSizes) {
  ASSERT_TRUE(loses_full_packets(kHole));
  const std::string told = lost_full_packets(kHole, "10.0.0.7");
  for (const char* part : {"1448 bytes", "10.0.0.7", "120 bytes", "MTU", "tcp_mtu_probing=1"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << ": " << told;
  }
}

TEST(LostPackets, PathThatOneFullPacketHasPassedIsNone) {
  SentBytes sent = kHole;
  sent.acked_bytes = sent.packet_bytes;
  EXPECT_FALSE(loses_full_packets(sent));
  sent.acked_bytes = UINT64_MAX;
  EXPECT_FALSE(loses_full_packets(sent));
}

TEST(LostPackets, PeerThatHasAcknowledgedNothingIsGone) {
  SentBytes sent = kHole;
  sent.acked_bytes = 0;
  EXPECT_FALSE(loses_full_packets(sent));
}

TEST(LostPackets, SmallMessageThatWaitsSaysNothingOfLargeOnes) {
  SentBytes sent = kHole;
  sent.waiting_bytes = sent.packet_bytes - 1;
  EXPECT_FALSE(loses_full_packets(sent));
  sent.waiting_bytes = 0;
  EXPECT_FALSE(loses_full_packets(sent));
}

TEST(LostPackets, PacketThatWasSentOnceMayBeOnItsWay) {
  SentBytes sent = kHole;
  sent.packets_sent_again = 0;
  EXPECT_FALSE(loses_full_packets(sent));
  sent.heard_later = true;  // but not if the peer has said something else since
  EXPECT_TRUE(loses_full_packets(sent));
}

TEST(LostPackets, JumboPacketsCount) {
  EXPECT_TRUE(loses_full_packets({8948, 1500, 9000, 3, false}));
  EXPECT_FALSE(loses_full_packets({8948, 9000, 9000, 3, false}));
}

TEST(LostPackets, SocketThatIsNoTcpOrNoneKnowsNothing) {
  EXPECT_FALSE(loses_full_packets({}));
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  testing::internal::CaptureStderr();
  warn_of_lost_packets(one.get());
  warn_of_lost_packets(-1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace farpage
