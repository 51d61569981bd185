#include "lab/paging/access_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "lab/paging/access_file.h"
#include "tests/support/temp_dir.h"

namespace farpage::paging {
namespace {

using prefetch::Access;
using prefetch::Mark;
using prefetch::Signal;
using testing::HasSubstr;

AccessFileHeader header_with(std::vector<Signal> columns) {
  AccessFileHeader header;
  header.name = "a \"name\"";
  header.synthetic = true;
  header.layout = {2, 3};
  header.columns = std::move(columns);
  return header;
}

// Pages come in the order of their numbers, with old ones between, and steps jump at times.
std::vector<Access> some_accesses(uint64_t count) {
  Random random(7);
  std::vector<Access> accesses;
  uint64_t step = 0;
  prefetch::PageNumber pages = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Access access;
    access.number = i;
    step += random.below(50) == 0 ? 1'000'000 : random.below(2);
    access.step = step;
    access.page = static_cast<prefetch::PageNumber>(random.below(pages + 1));
    if (access.page == pages) ++pages;
    access.head = access.page % 6;
    access.mass = static_cast<float>(random.unit());
    access.score = static_cast<float>(random.unit() * 10 - 5);
    access.similarity = static_cast<float>(random.unit() * 2 - 1);
    access.category = static_cast<uint32_t>(random.next());
    access.entropy = static_cast<float>(random.unit() * 5);
    access.margin = static_cast<float>(random.unit() * 9);
    access.mark = static_cast<Mark>(random.below(prefetch::kMarks));
    accesses.push_back(access);
  }
  return accesses;
}

void write(const std::string& path, const AccessFileHeader& header,
           const std::vector<Access>& accesses) {
  auto writer = AccessWriter::create(path, header);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  for (const Access& access : accesses) ASSERT_TRUE((*writer)->add(access).has_value());
  ASSERT_TRUE((*writer)->finish().has_value());
}

TEST(AccessWriter, WhatIsWrittenIsRead) {
  const TempDir folder;
  const auto accesses = some_accesses(100'000);  // more than one block
  write(folder / "a.trace",
        header_with({Signal::kMark, Signal::kMass, Signal::kScore, Signal::kSimilarity,
                     Signal::kCategory, Signal::kEntropy, Signal::kMargin}),
        accesses);
  const auto trace = open_access_file(folder / "a.trace");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->name, "a \"name\"");
  EXPECT_TRUE(trace->synthetic);
  EXPECT_TRUE(trace->signals.all());
  EXPECT_EQ(trace->layout.layers, 2u);
  EXPECT_EQ(trace->layout.heads, 3u);
  EXPECT_TRUE(trace->skipped.empty());
  size_t i = 0;
  ASSERT_TRUE(for_each_access(*trace, [&](const Access& read) {
    ASSERT_LT(i, accesses.size());
    const Access& written = accesses[i++];
    ASSERT_EQ(read.number, written.number);
    ASSERT_EQ(read.step, written.step);
    ASSERT_EQ(read.page, written.page);
    ASSERT_EQ(read.head, written.head);
    ASSERT_EQ(read.mass, written.mass);
    ASSERT_EQ(read.score, written.score);
    ASSERT_EQ(read.similarity, written.similarity);
    ASSERT_EQ(read.category, written.category);
    ASSERT_EQ(read.entropy, written.entropy);
    ASSERT_EQ(read.margin, written.margin);
    ASSERT_EQ(read.mark, written.mark);
  }));
  EXPECT_EQ(i, accesses.size());
}

TEST(AccessWriter, OneHeadHasNoColumnOfHeads) {
  const TempDir folder;
  AccessFileHeader header = header_with({});
  header.layout = {};
  std::vector<Access> accesses = some_accesses(100);
  for (Access& access : accesses) access.head = 0;
  write(folder / "a.trace", header, accesses);
  const auto trace = open_access_file(folder / "a.trace");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->accesses, 100u);
  EXPECT_TRUE(trace->signals.none());
}

TEST(AccessWriter, ATraceThatIsNotFinishedIsRefused) {
  const TempDir folder;
  {
    auto writer = AccessWriter::create(folder / "a.trace", header_with({}));
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE((*writer)->add({}).has_value());
  }
  const auto trace = open_access_file(folder / "a.trace");
  ASSERT_FALSE(trace.has_value());
  EXPECT_THAT(trace.error().message, HasSubstr("cut off"));
}

TEST(AccessWriter, WhatCannotBeWrittenIsNamed) {
  const TempDir folder;
  const auto writer = AccessWriter::create(folder / "none/a.trace", header_with({}));
  ASSERT_FALSE(writer.has_value());
  EXPECT_THAT(writer.error().message, HasSubstr("none/a.trace"));
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "hardware: there is no /dev/full";
  auto full = AccessWriter::create("/dev/full", header_with({}));
  ASSERT_TRUE(full.has_value());
  EXPECT_THAT((*full)->finish().error().message, HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace farpage::paging
