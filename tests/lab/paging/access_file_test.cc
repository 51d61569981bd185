#include "lab/paging/access_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace farpage::paging {
namespace {

using prefetch::Access;
using testing::HasSubstr;

std::string u32(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string f32(float value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string framed(uint32_t number, const std::string& bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return u32(number) + u32(static_cast<uint32_t>(bytes.size())) + u32(crc.checksum()) + bytes;
}
std::string head(const std::string& json) {
  return "FPACCESS" + framed(1, json);
}
std::string end(uint64_t accesses) {
  return framed(0, {reinterpret_cast<const char*>(&accesses), sizeof accesses});
}

const std::string kPlain = head(R"({"name": "n", "synthetic": true, "columns": []})");
const std::string kWithMass = head(R"({"synthetic": false, "columns": ["mass"]})");
// Pages 0, 1, 0 at steps 5, 5 and 305.
const std::string kBlock = framed(3, std::string("\x05\x00\xAC\x02\x00\x02\x01", 7));

class AccessFile : public testing::Test {
 protected:
  Result<AccessTrace> opened(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return open_access_file(path_);
  }
  std::string refusal(const std::string& bytes) {
    const auto trace = opened(bytes);
    if (trace) return "it was taken";
    EXPECT_THAT(trace.error().message, HasSubstr(path_));
    return trace.error().message;
  }
  static std::vector<Access> accesses_of(const AccessTrace& trace) {
    std::vector<Access> all;
    EXPECT_TRUE(for_each_access(trace, [&](const Access& access) { all.push_back(access); }));
    return all;
  }

  const TempDir folder_;
  const std::string path_ = folder_ / "a.trace";
};

TEST_F(AccessFile, HasStepsAndPages) {
  const auto trace = opened(kPlain + kBlock + framed(1, std::string("\x01\x04", 2)) + end(4));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->name, "n");
  EXPECT_TRUE(trace->synthetic);
  EXPECT_EQ(trace->pages, 3u);
  EXPECT_EQ(trace->accesses, 4u);
  EXPECT_TRUE(trace->signals.none());
  for (int time = 0; time < 2; ++time) {
    const auto all = accesses_of(*trace);
    ASSERT_EQ(all.size(), 4u);
    const std::vector<uint64_t> steps = {5, 5, 305, 306};
    const std::vector<prefetch::PageNumber> pages = {0, 1, 0, 2};
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].number, i);
      EXPECT_EQ(all[i].step, steps[i]);
      EXPECT_EQ(all[i].page, pages[i]);
    }
  }
}

TEST_F(AccessFile, HasHeadsAndSignalsInTheOrderOfItsHead) {
  const std::string columns = head(R"({"synthetic": false, "layers": 2, "heads": 100, "model": "m",
               "columns": ["category", "similarity", "mass", "score", "mark", "margin", "entropy"]})");
  const std::string payload = std::string("\x00\x01\x00\x02\x8F\x01\x03", 7) +
                              std::string("\x07\x80\x01", 3) + f32(-0.5F) + f32(1) + f32(0.25F) +
                              f32(0) + f32(-3) + f32(9) + std::string("\x04\x00", 2) + f32(0) +
                              f32(7) + f32(2.5F) + f32(0.5F);
  const auto trace = opened(columns + framed(2, payload) + end(2));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->synthetic);
  EXPECT_TRUE(trace->signals.all());
  EXPECT_EQ(trace->layout.layers, 2u);
  EXPECT_EQ(trace->layout.heads, 100u);
  const auto all = accesses_of(*trace);
  EXPECT_EQ(all[0].head, 143u);
  EXPECT_EQ(all[1].head, 3u);
  EXPECT_EQ(all[0].category, 7u);
  EXPECT_EQ(all[1].category, 128u);
  EXPECT_EQ(all[0].similarity, -0.5F);
  EXPECT_EQ(all[1].mass, 0.0F);
  EXPECT_EQ(all[0].mass, 0.25F);
  EXPECT_EQ(all[1].score, 9.0F);
  EXPECT_EQ(all[0].mark, prefetch::Mark::kConcludes);
  EXPECT_EQ(all[1].mark, prefetch::Mark::kNone);
  EXPECT_EQ(all[1].margin, 7.0F);
  EXPECT_EQ(all[0].entropy, 2.5F);
  EXPECT_EQ(all[1].entropy, 0.5F);
}

TEST_F(AccessFile, ANameIsWordsAndNoOrdersToATerminal) {
  const auto trace =
      opened(head(R"({"name": "a\u001b]0;b\nc", "synthetic": true, "columns": []})") + end(0));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->name, "a ]0;b c");
}

TEST_F(AccessFile, LeavesOutMassesAboveOneButForRounding) {
  const std::string payload = std::string("\x00\x00\x00\x02", 4) + f32(1.0005F) + f32(1.01F);
  const auto trace = opened(kWithMass + framed(2, payload) + end(2));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->accesses, 1u);
  ASSERT_EQ(trace->skipped.size(), 1u);
  EXPECT_EQ(trace->skipped[0].accesses, 1u);
}

TEST_F(AccessFile, LeavesOutWhatIsNoMassAndCountsIt) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::string payload = std::string("\x00\x00\x00\x00\x00\x02\x02\x00", 8) + f32(kNan) +
                              f32(0.5F) + f32(-0.1F) + f32(INFINITY);
  const auto trace = opened(kWithMass + framed(4, payload) + end(4));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->accesses, 1u);
  ASSERT_EQ(trace->skipped.size(), 1u);
  EXPECT_EQ(trace->skipped[0].accesses, 3u);
  EXPECT_THAT(trace->skipped[0].reason, HasSubstr("mass"));
  const auto all = accesses_of(*trace);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].page, 1u);
  EXPECT_EQ(all[0].number, 0u);
}

TEST_F(AccessFile, LeavesOutEntropiesAndMarginsBelowZero) {
  for (const std::string column : {"entropy", "margin"}) {
    const std::string payload = std::string("\x00\x00\x00\x00\x00\x00\x00\x00", 8) +
                                f32(std::numeric_limits<float>::quiet_NaN()) + f32(0) + f32(-0.1F) +
                                f32(INFINITY);
    const auto trace = opened(head(R"({"synthetic": true, "columns": [")" + column + "\"]}") +
                              framed(4, payload) + end(4));
    ASSERT_TRUE(trace.has_value()) << trace.error().message;
    EXPECT_EQ(trace->accesses, 1u);
    ASSERT_EQ(trace->skipped.size(), 1u);
    EXPECT_EQ(trace->skipped[0].accesses, 3u);
    EXPECT_THAT(trace->skipped[0].reason, HasSubstr(column));
  }
}

TEST_F(AccessFile, LeavesOutMarksThatAreNotKnown) {
  const std::string payload("\x00\x00\x00\x00\x00\x00\x04\x05\x85\x02", 10);
  const auto trace =
      opened(head(R"({"synthetic": true, "columns": ["mark"]})") + framed(3, payload) + end(3));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->accesses, 1u);
  ASSERT_EQ(trace->skipped.size(), 1u);
  EXPECT_EQ(trace->skipped[0].accesses, 2u);
  EXPECT_THAT(trace->skipped[0].reason, HasSubstr("mark"));
}

TEST_F(AccessFile, LeavesOutPagesOfHeadsThatAreNotThere) {
  const std::string two = head(R"({"synthetic": true, "heads": 2, "columns": []})");
  // Pages 0, 1, 0; 0 is of head 2.
  const std::string payload("\x00\x00\x00\x00\x02\x01\x02\x01", 8);
  const auto trace = opened(two + framed(3, payload) + end(3));
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->accesses, 1u);
  ASSERT_EQ(trace->skipped.size(), 1u);
  EXPECT_EQ(trace->skipped[0].accesses, 2u);
  EXPECT_THAT(trace->skipped[0].reason, HasSubstr("head"));
}

TEST_F(AccessFile, SaysWhereItWasCutOff) {
  const std::string whole = kPlain + kBlock + end(3);
  EXPECT_THAT(refusal(kPlain + kBlock), HasSubstr("block 2, at byte"));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "it was taken") << length;
  }
  ASSERT_TRUE(opened(whole).has_value());
}

TEST_F(AccessFile, RefusesEveryDamagedByte) {
  const std::string whole = kPlain + kBlock + end(3);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(refusal(damaged), "it was taken") << at;
  }
}

TEST_F(AccessFile, RefusesWhatIsNotAsTheFormatHasIt) {
  EXPECT_THAT(refusal("{\"timestamp\": 0}"), HasSubstr("--format mooncake"));
  EXPECT_THAT(refusal("FPACCESS" + framed(2, "{}")), HasSubstr("version 2"));
  EXPECT_THAT(refusal(head("[]")), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(head(R"({"columns": []})")), HasSubstr("synthetic"));
  EXPECT_THAT(refusal(head(R"({"synthetic": true})")), HasSubstr("columns"));
  EXPECT_THAT(refusal(head(R"({"synthetic": true, "columns": ["mass", "mass"]})")),
              HasSubstr("each once"));
  EXPECT_THAT(refusal(head(R"({"synthetic": true, "columns": ["weight"]})")), HasSubstr("score"));
  EXPECT_THAT(refusal(head(R"({"synthetic": true, "columns": [], "heads": 0})")),
              HasSubstr("numbers from 1"));
  EXPECT_THAT(refusal(head(R"({"synthetic": true, "columns": [], "layers": 16777217})")),
              HasSubstr("16777216"));
  // Page 1 where none has been named; page -1.
  EXPECT_THAT(refusal(kPlain + framed(1, std::string("\x00\x02", 2)) + end(1)),
              HasSubstr("names page 1 where 0"));
  EXPECT_NE(refusal(kPlain + framed(1, std::string("\x00\x01", 2)) + end(1)), "it was taken");
  const std::string too_long = std::string(9, '\xFF') + std::string("\x02\x00", 2);
  EXPECT_THAT(refusal(kPlain + framed(1, too_long) + end(1)), HasSubstr("steps"));
  const std::string last = std::string(9, '\xFF') + std::string("\x01\x01\x00\x00", 4);
  EXPECT_THAT(refusal(kPlain + framed(2, last) + end(2)), HasSubstr("64 bits"));
  EXPECT_THAT(refusal(kPlain + framed(1, std::string("\x00\x00\x00", 3)) + end(1)),
              HasSubstr("follows its last column"));
  EXPECT_THAT(refusal(kWithMass + framed(1, std::string("\x00\x00\x00", 3)) + end(1)),
              HasSubstr("'mass'"));
  EXPECT_THAT(refusal(kPlain + kBlock + end(4)), HasSubstr("3 accesses came before it"));
  EXPECT_THAT(refusal(kPlain + kBlock + end(3) + "x"), HasSubstr("something follows"));
  EXPECT_THAT(refusal(kPlain + u32(65'537) + u32(4) + u32(0)), HasSubstr("at most 65536"));
  EXPECT_THAT(refusal(kPlain + u32(1) + u32(0xFFFFFFFF) + u32(0)), HasSubstr("at most 65536"));
}

TEST_F(AccessFile, IsAFile) {
  for (const auto& [bytes, what] :
       {std::pair("version https://git-lfs.github.com/spec/v1\nsize 7\n", "is a Git LFS pointer"),
        std::pair("\x1f\x8b\x08", "is compressed with gzip: unpack it first"),
        std::pair("\x28\xb5\x2f\xfd", "is compressed with zstd"),
        std::pair("\x01\x02", "this is no access trace")}) {
    std::ofstream(folder_ / "other", std::ios::binary) << bytes;
    EXPECT_THAT(open_access_file(folder_ / "other").error().message, HasSubstr(what));
  }
  EXPECT_THAT(open_access_file(folder_ / "none").error().message, HasSubstr("No such file"));
  EXPECT_THAT(open_access_file("/dev/zero").error().message, HasSubstr("it is read twice"));
}

TEST_F(AccessFile, IsNotReadOnAfterItHasGrown) {
  const auto trace = opened(kPlain + kBlock + end(3));
  ASSERT_TRUE(trace.has_value());
  std::ofstream(path_, std::ios::binary)
      << kPlain + kBlock + framed(1, std::string("\x01\x04", 2)) + end(4);
  const auto read = for_each_access(*trace, [](const Access&) {});
  ASSERT_FALSE(read.has_value());
  EXPECT_THAT(read.error().message, HasSubstr("has changed"));
}

}  // namespace
}  // namespace farpage::paging
