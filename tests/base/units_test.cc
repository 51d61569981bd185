#include "base/units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace farpage {
namespace {

TEST(Units, ParsesWholeNumbersAndSuffixes) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("65536"), 65536u);
  EXPECT_EQ(*parse_bytes("12B"), 12u);
  EXPECT_EQ(*parse_bytes("64KiB"), 64 * kKiB);
  EXPECT_EQ(*parse_bytes("64 KiB"), 64 * kKiB);
  EXPECT_EQ(*parse_bytes("4GiB"), 4 * kGiB);
  EXPECT_EQ(*parse_bytes("2TiB"), 2048 * kGiB);
  EXPECT_EQ(*parse_bytes("18446744073709551615"), UINT64_MAX);
}

TEST(Units, ParsesFractionsThatAreWholeBytes) {
  EXPECT_EQ(*parse_bytes("1.5MiB"), 3 * kMiB / 2);
  EXPECT_EQ(*parse_bytes("0.5KiB"), 512u);
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text : {"",        " ",     "KiB",  "-1",    "-1KiB",  "+1",     "1kb", "1GB",
                           "1 G",     "1e3",   "0x10", "1.5B",  "0.3KiB", "nan",    "inf", "1,5MiB",
                           "1..5MiB", "1KiB1", " 1",   "1KiB ", "KiB1",   "1KiBKiB"}) {
    const Result<uint64_t> bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code, Code::kInvalid);
    EXPECT_NE(bytes.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(Units, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(parse_bytes("18446744073709551616"));
  EXPECT_FALSE(parse_bytes("16777216TiB"));
  EXPECT_FALSE(parse_bytes("99999999999999999999GiB"));
  EXPECT_FALSE(parse_bytes(std::string(5000, '9')));
}

TEST(Units, Formats) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(4 * kGiB), "4 GiB");
}

RC_GTEST_PROP(Units, AnyNumberOfBytesComesBack, (uint64_t bytes)) {
  RC_ASSERT(*parse_bytes(std::to_string(bytes)) == bytes);
  RC_ASSERT(*parse_bytes(std::to_string(bytes) + "B") == bytes);
  const uint64_t small = bytes >> 40;
  RC_ASSERT(*parse_bytes(std::to_string(small) + "GiB") == small << 30);
}

RC_GTEST_PROP(Units, NoTextCrashesTheParser, (const std::string& text)) {
  const bool is_number =
      !text.empty() &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (is_number && text.size() < 19) RC_ASSERT(parse_bytes(text).has_value());
}

RC_GTEST_PROP(Units, RoundsUpToTheNextMultiple, ()) {
  const auto value = *rc::gen::inRange<uint64_t>(0, uint64_t{1} << 40);
  const auto multiple = *rc::gen::inRange<uint64_t>(1, uint64_t{1} << 22);
  const uint64_t rounded = round_up(value, multiple);
  RC_ASSERT(rounded % multiple == 0);
  RC_ASSERT(rounded >= value);
  RC_ASSERT(rounded - value < multiple);
}

}  // namespace
}  // namespace farpage
