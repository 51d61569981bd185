// The kernel's files of a port, made up.
#include "transport/verbs/paths/port_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace farpage::verbs {
namespace {

class PortFilesTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  TempDir folder_;
  PortFiles files_{folder_ / ""};
};

TEST_F(PortFilesTest, ANicCountsWordsOfFourBytes) {
  write("rate", "100 Gb/sec (4X EDR)\n");
  write("counters/port_xmit_data", "10\n");
  write("counters/port_rcv_data", "20\n");
  write("counters/port_xmit_packets", "3\n");
  write("counters/port_rcv_packets", "4\n");
  write("hw_counters/sent_pkts", "99\n");
  EXPECT_EQ(files_.link_bits_per_s(), 100'000'000'000u);
  const PortCounts counts = files_.counts();
  EXPECT_EQ(counts.sent_bytes, 40u);
  EXPECT_EQ(counts.received_bytes, 80u);
  EXPECT_EQ(counts.sent_packets, 3u);
  EXPECT_EQ(counts.received_packets, 4u);
}

TEST_F(PortFilesTest, SoftRoceCountsPacketsAlone) {
  write("rate", "2.5 Gb/sec (1X SDR)\n");
  write("hw_counters/sent_pkts", "5\n");
  write("hw_counters/rcvd_pkts", "6\n");
  EXPECT_EQ(files_.link_bits_per_s(), 2'500'000'000u);
  const PortCounts counts = files_.counts();
  EXPECT_EQ(counts.sent_bytes, std::nullopt);
  EXPECT_EQ(counts.received_bytes, std::nullopt);
  EXPECT_EQ(counts.sent_packets, 5u);
  EXPECT_EQ(counts.received_packets, 6u);
}

TEST_F(PortFilesTest, WhatIsNotSaidIsNotMadeUp) {
  EXPECT_EQ(files_.link_bits_per_s(), 0u);
  for (const char* rate : {"", "fast", "-1 Gb/sec", "5 Mb/sec", "1e99 Gb/sec"}) {
    write("rate", rate);
    EXPECT_EQ(files_.link_bits_per_s(), 0u) << rate;
  }
  write("counters/port_xmit_data", "N/A (not supported)\n");
  EXPECT_EQ(files_.counts().sent_bytes, std::nullopt);
  EXPECT_EQ(files_.counts().sent_packets, std::nullopt);
}

}  // namespace
}  // namespace farpage::verbs
