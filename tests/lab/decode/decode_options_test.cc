#include "lab/decode/decode_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace farpage::decode {
namespace {

using testing::HasSubstr;

TEST(DecodeOptions, ThePresetsAreValid) {
  EXPECT_TRUE(preset("reasoning")->validate().has_value());
  EXPECT_TRUE(preset("normal")->validate().has_value());
  EXPECT_THAT(preset("reasonin").error().message, HasSubstr("did you mean 'reasoning'?"));
}

TEST(DecodeOptions, AKeyTakesItsRangeAndNothingElse) {
  DecodeOptions options;
  std::set<std::string_view> keys;
  for (const DecodeField& field : fields(options)) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_GE(field.value(), field.least) << field.key;
    EXPECT_LE(field.value(), field.most) << field.key;
    for (const double value : {field.least, field.most}) {
      EXPECT_TRUE(set(options, field.key, value).has_value()) << field.key;
      EXPECT_EQ(field.value(), value) << field.key;
    }
    for (const double value : {field.least - 1, field.most * 2 + 4, 0.0 / 0.0}) {
      const auto done = set(options, field.key, value);
      ASSERT_FALSE(done.has_value()) << field.key;
      EXPECT_THAT(done.error().message, HasSubstr(std::string(field.key)));
    }
  }
}

TEST(DecodeOptions, TextIsANumber) {
  DecodeOptions options;
  EXPECT_TRUE(set(options, "phoenix", "0.125").has_value());
  EXPECT_EQ(options.phoenix, 0.125);
  EXPECT_TRUE(set(options, "tokens", "77").has_value());
  EXPECT_EQ(options.tokens, 77u);
  for (const char* text : {"", "x", "0.1x", " 0.1", "nan", "inf"}) {
    EXPECT_FALSE(set(options, "phoenix", text).has_value()) << text;
  }
  EXPECT_THAT(set(options, "tokens", "1.5").error().message, HasSubstr("whole number"));
  EXPECT_THAT(set(options, "pheonix", 0.1).error().message, HasSubstr("did you mean 'phoenix'?"));
}

TEST(DecodeOptions, WhatDoesNotGoTogetherIsRefused) {
  const auto refusal = [](auto change) {
    DecodeOptions options;
    change(options);
    const auto valid = options.validate();
    return valid ? std::string("it was taken") : valid.error().message;
  };
  EXPECT_THAT(refusal([](auto& o) { o.recent_share = 0.01; }), HasSubstr("recent_share"));
  EXPECT_THAT(refusal([](auto& o) { o.recent_share = 1; }), HasSubstr("pages_wanted"));
  EXPECT_THAT(refusal([](auto& o) { o.segment_least_tokens = 300; }), HasSubstr("segment_most"));
  EXPECT_THAT(refusal([](auto& o) { o.output_p90 = 7; }), HasSubstr("output_p90"));
  EXPECT_THAT(refusal([](auto& o) { o.copied_least = 0.9; }), HasSubstr("copied_most"));
  EXPECT_THAT(refusal([](auto& o) { o.explore = 0.7; }), HasSubstr("add up to 1"));
  EXPECT_THAT(refusal([](auto& o) { o.segment_mean_tokens = 0; }), HasSubstr("milestones"));
  EXPECT_THAT(refusal([](auto& o) { o.burst_steps = 0; }), HasSubstr("burst_wakes"));
  EXPECT_THAT(refusal([](auto& o) { o.layers = o.heads = 1'024, o.tokens = 100'000'000; }),
              HasSubstr("pages"));
}

}  // namespace
}  // namespace farpage::decode
