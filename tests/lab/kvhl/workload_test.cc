#include "lab/kvhl/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lab/kvhl/sweep.h"
#include "tests/support/temp_dir.h"

namespace farpage::kvhl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPagesHeader = "page_id,layer,head_group,token_start,token_end,size_bytes\n";

class KvhlWorkload : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / file, std::ios::binary) << text;
  }
  void expect_refused(const std::string& pages, const std::string& trace,
                      const std::string& because) const {
    write("w.fp16.pages.csv", pages);
    write("w.trace.csv", trace);
    const auto workload = read_workload(folder_.path(), "w", "fp16");
    ASSERT_FALSE(workload.has_value()) << because;
    EXPECT_THAT(workload.error().message, HasSubstr(because));
  }

  TempDir folder_;
};

TEST_F(KvhlWorkload, IsReadFromItsFiles) {
  write("w.fp16.pages.csv", std::string(kPagesHeader) + "0,0,0,0,16,50\r\n1,1,1,16,32,60\r\n");
  write("w.trace.csv", "step,page_id\n0,1\n0,0\n5,1\n");
  write("other.trace.csv", "");
  const auto names = workloads_in(folder_.path());
  ASSERT_TRUE(names.has_value());
  EXPECT_THAT(*names, ElementsAre("other", "w"));
  const auto workload = read_workload(folder_.path(), "w", "fp16");
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  EXPECT_THAT(workload->page_bytes, ElementsAre(50, 60));
  ASSERT_EQ(workload->accesses.size(), 3u);
  EXPECT_EQ(workload->accesses[2].step, 5u);
  EXPECT_EQ(workload->accesses[2].page, 1u);
}

TEST_F(KvhlWorkload, ATraceAloneNumbersPagesAsTheyAreNamed) {
  write("w.trace.csv", "step,page_id\n0,70\n0,3\n5,70\n5,18446744073709551615\n");
  const auto accesses = read_accesses(folder_ / "w.trace.csv");
  ASSERT_TRUE(accesses.has_value()) << accesses.error().message;
  std::vector<std::pair<uint64_t, prefetch::PageNumber>> read;
  for (const prefetch::Access& access : *accesses) read.emplace_back(access.step, access.page);
  EXPECT_THAT(read,
              ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(5, 0), std::pair(5, 2)));
  write("w.trace.csv", "step,page_id\n4,0\n3,0\n");
  EXPECT_THAT(read_accesses(folder_ / "w.trace.csv").error().message, HasSubstr("w.trace.csv:3: "));
}

TEST_F(KvhlWorkload, NumbersAreWholeHoweverTheyAreWritten) {
  write("w.trace.csv", "\xef\xbb\xbfstep,page_id\n0.0,7.0\n1e1,7\n");
  const auto accesses = read_accesses(folder_ / "w.trace.csv");
  ASSERT_TRUE(accesses.has_value()) << accesses.error().message;
  EXPECT_EQ(accesses->at(1).step, 10u);
  EXPECT_EQ(accesses->at(1).page, 0u);
  write("w.trace.csv", "step,page_id\n0.5,7\n");
  EXPECT_THAT(read_accesses(folder_ / "w.trace.csv").error().message, HasSubstr("whole numbers"));
}

TEST_F(KvhlWorkload, AFileThatWasCutOffIsTakenAtTheEndOfALineAlone) {
  const std::string pages = std::string(kPagesHeader) + "0,0,0,0,16,50\n1,1,1,16,32,60\r\n";
  const std::string trace = "step,page_id\n0,0\r\n12,0\n123,0\n";
  const auto is_whole = [](const std::string& part) {
    return part.ends_with('\n') && std::ranges::count(part, '\n') > 1;
  };
  write("w.trace.csv", trace);
  for (size_t bytes = 0; bytes <= pages.size(); ++bytes) {
    const std::string part = pages.substr(0, bytes);
    write("w.fp16.pages.csv", part);
    EXPECT_EQ(read_workload(folder_.path(), "w", "fp16").has_value(), is_whole(part)) << part;
  }
  for (size_t bytes = 0; bytes <= trace.size(); ++bytes) {
    const std::string part = trace.substr(0, bytes);
    write("w.trace.csv", part);
    EXPECT_EQ(read_workload(folder_.path(), "w", "fp16").has_value(), is_whole(part)) << part;
    EXPECT_EQ(read_accesses(folder_ / "w.trace.csv").has_value(), is_whole(part)) << part;
  }
  expect_refused(pages, trace + "9", "w.trace.csv:5: the file ends within a line");
}

TEST_F(KvhlWorkload, BadFilesAreRefusedWithTheirLine) {
  const std::string pages = std::string(kPagesHeader) + "0,0,0,0,16,50\n";
  expect_refused("", "", "w.fp16.pages.csv: there is nothing below the header");
  expect_refused("step,page_id\n", "", "w.fp16.pages.csv:1: the first line is not 'page_id,");
  expect_refused(pages + "2,0,0,0,16,50\n", "", ":3: page 2 stands where 1 is expected");
  expect_refused(pages + "1,0,0,0,16\n", "", ":3: '1,0,0,0,16' is not 6 whole numbers");
  expect_refused(pages + "1,0,0,0,16,0\n", "", ":3: page 1 has 0 bytes");
  expect_refused(pages, "step,page_id\n0,1\n", "w.trace.csv:2: page 1 is none of the 1 pages");
  expect_refused(pages, "step,page_id\n0,-1\n", "w.trace.csv:2: '0,-1' is not 2 whole numbers");
  expect_refused(pages, "step,page_id\n4,0\n3,0\n", "w.trace.csv:3: step 3 comes after 4");
  expect_refused(pages, "step,page_id\n", "w.trace.csv: there is nothing below the header");
}

TEST_F(KvhlWorkload, AFolderWithoutAnyIsRefused) {
  EXPECT_THAT(workloads_in(folder_.path()).error().message,
              HasSubstr("no file ends in .trace.csv"));
  EXPECT_THAT(workloads_in(folder_ / "none").error().message, HasSubstr("cannot read the folder"));
}

TEST_F(KvhlWorkload, APageThatFitsInNoTierIsRefused) {
  write("w.fp16.pages.csv", std::string(kPagesHeader) + "0,0,0,0,16,64001\n");
  write("w.trace.csv", "step,page_id\n0,0\n");
  const auto table = sweep(folder_.path(), [](size_t, size_t) {});
  ASSERT_FALSE(table.has_value());
  EXPECT_THAT(table.error().message,
              HasSubstr("the nearest tier of small_fp16_prefetch only 64000"));
}

}  // namespace
}  // namespace farpage::kvhl
