#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "tests/lab/decode/decoded.h"

namespace farpage::decode {
namespace {

TEST(Selection, HasTheSinkTheNewestAndAsManyAsAreWanted) {
  for (const char* name : {"reasoning", "normal"}) {
    DecodeOptions options = *preset(name);
    options.tokens = 600;
    const Decoded decoded(options);
    const uint32_t recent = name == std::string("normal") ? 19 : 6;  // 0.8 and 0.25 of 24
    for (uint64_t step = 0; step < 600; ++step) {
      const auto newest = static_cast<uint32_t>((1'024 + step) / 16);
      for (const auto& read : decoded.read[step]) {
        ASSERT_EQ(read.size(), 24u);
        ASSERT_EQ(std::ranges::adjacent_find(read), read.end());
        ASSERT_EQ(read.front(), 0u);
        ASSERT_EQ(read.back(), newest);
        ASSERT_EQ(read[24 - recent], newest - recent + 1);
      }
    }
  }
}

TEST(Selection, AShortPromptIsReadAsFarAsItGoes) {
  DecodeOptions options;
  options.prompt_tokens = 1;
  options.tokens = 900;
  const Decoded decoded(options);
  EXPECT_EQ(decoded.read[0][0], std::vector<uint32_t>{0});
  EXPECT_EQ(decoded.read[899][0].size(), 24u);
}

TEST(Selection, ChurnIsAShareOfTheFarPagesInStableAndUnstableHeads) {
  DecodeOptions options = quiet();
  options.churn_stable = 0.2;
  options.churn_unstable = 0.5;
  options.unstable_heads = 6.0 / 16;
  const Decoded decoded(options);
  std::map<uint64_t, int> unstable_of_layer;
  for (uint64_t head = 0; head < 16; ++head) {
    double exchanged = 0;
    for (uint64_t step = 1; step < 4'096; ++step) {
      exchanged += static_cast<double>(decoded.entered(step, head).size());
    }
    const double share = exchanged / (4'095 * 17);
    const bool is_unstable = share > 0.35;
    EXPECT_NEAR(share, is_unstable ? 0.5 : 0.2, 0.01);
    if (is_unstable) ++unstable_of_layer[head / 4];
  }
  // A whole layer, and the rest in one other.
  ASSERT_EQ(unstable_of_layer.size(), 2u);
  EXPECT_EQ(unstable_of_layer.begin()->second + unstable_of_layer.rbegin()->second, 6);
  EXPECT_EQ(std::max(unstable_of_layer.begin()->second, unstable_of_layer.rbegin()->second), 4);
}

TEST(Selection, WhichLayerIsUnstableIsDrawn) {
  std::set<uint64_t> unstable;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    DecodeOptions options = quiet();
    options.seed = seed;
    options.tokens = 20;
    options.churn_unstable = 1;
    const Decoded decoded(options);
    for (uint64_t head = 0; head < 16; ++head) {
      if (!decoded.entered(5, head).empty()) unstable.insert(head / 4);
    }
  }
  EXPECT_EQ(unstable.size(), 4u);
}

TEST(Selection, ChurnBringsPagesThatRestAndNoOthers) {
  DecodeOptions options = quiet();
  options.churn_stable = options.churn_unstable = 0.2;
  const auto of_prompt = [&](uint64_t resting_pages) {
    options.resting_pages = resting_pages;
    const Decoded decoded(options);
    std::set<uint32_t> read;
    for (const auto& heads : decoded.read) read.insert(heads[0].begin(), heads[0].end());
    return std::ranges::count_if(read, [](uint32_t position) { return position < 64; });
  };
  // The sink, five of the newest at first, 17 far ones, and those that rested then.
  EXPECT_LE(of_prompt(24), 1 + 5 + 17 + 24);
  EXPECT_EQ(of_prompt(0), 64);
}

TEST(Selection, WhatRestsComesBackSoonForTheMostPart) {
  const DecodeOptions options;
  const Decoded decoded(options);
  std::map<uint32_t, uint64_t> last;
  std::vector<uint64_t> absences;
  for (uint64_t step = 0; step < options.tokens; ++step) {
    for (const uint32_t position : decoded.read[step][0]) {
      if (last.contains(position) && step - last[position] > 1) {
        absences.push_back(step - last[position]);
      }
      last[position] = step;
    }
  }
  std::ranges::sort(absences);
  EXPECT_LT(absences[absences.size() / 2], 8u);
}

TEST(Selection, ABoundaryRedrawsItsShareAndPhoenixesAreOfThePrompt) {
  DecodeOptions options = quiet();
  options.tokens = 20'000;
  options.redraw = 0.5;
  options.phoenix = 0.25;
  const Decoded decoded(options);
  double entered = 0;
  double of_prompt = 0;
  double boundaries = 0;
  for (uint64_t step = 1; step < options.tokens; ++step) {
    const bool is_boundary = decoded.generator.script().begins_segment(step);
    boundaries += is_boundary ? 16 : 0;
    for (uint64_t head = 0; head < 16; ++head) {
      const auto fresh = decoded.entered(step, head);
      ASSERT_TRUE(is_boundary || fresh.empty()) << step;
      if (step < 2'000) continue;  // there is too little output at first
      entered += static_cast<double>(fresh.size());
      of_prompt += static_cast<double>(
          std::ranges::count_if(fresh, [](uint32_t position) { return position < 64; }));
    }
  }
  EXPECT_NEAR(entered / (boundaries * 18 / 20) / 17, 0.5, 0.02);
  EXPECT_NEAR(of_prompt / entered, 0.25, 0.02);
}

TEST(Selection, HeadsCopyTheirShareFromOthers) {
  DecodeOptions options = quiet();
  options.page_tokens = 1;  // so many pages that heads hardly ever agree by chance
  options.tokens = 30'000;
  options.redraw = 1;
  options.phoenix = 0;
  options.copied_least = 0.5;
  options.copied_most = 0.8;
  const Decoded decoded(options);
  std::vector<double> entered(16);
  std::vector<double> shared(16);
  for (uint64_t step = 5'000; step < options.tokens; ++step) {
    if (!decoded.generator.script().begins_segment(step)) continue;
    std::map<uint32_t, int> heads;
    for (uint64_t head = 0; head < 16; ++head) {
      for (const uint32_t position : decoded.entered(step, head)) ++heads[position];
    }
    for (uint64_t head = 0; head < 16; ++head) {
      for (const uint32_t position : decoded.entered(step, head)) {
        ++entered[head];
        shared[head] += heads[position] > 1 ? 1 : 0;
      }
    }
  }
  for (uint64_t head = 0; head < 16; ++head) {
    const double share = shared[head] / entered[head];
    EXPECT_GT(share, 0.48);
    EXPECT_LT(share, 0.84);
  }
  const double all = std::accumulate(shared.begin(), shared.end(), 0.0) /
                     std::accumulate(entered.begin(), entered.end(), 0.0);
  EXPECT_NEAR(all, 0.65, 0.07);
}

TEST(Selection, MassIsThatOfZipf) {
  for (const double top : {0.565, 0.75}) {
    DecodeOptions options;
    options.tokens = 20;
    options.top_fifth_mass = top;
    DecodeGenerator generator(options);
    std::vector<prefetch::Access> accesses;
    for (int step = 0; step < 20; ++step) generator.step(accesses);
    for (size_t first = 0; first < accesses.size(); first += 24) {
      std::vector<double> masses;
      for (size_t i = first; i < first + 24; ++i) masses.push_back(accesses[i].mass);
      std::ranges::sort(masses, std::greater());
      EXPECT_NEAR(std::accumulate(masses.begin(), masses.end(), 0.0), 1, 1e-5);
      // A fifth of 24 is 4.8.
      EXPECT_NEAR(masses[0] + masses[1] + masses[2] + masses[3] + 0.8 * masses[4], top, 1e-4);
    }
  }
}

// WakeKV's figures count what was resident before the step (workloads of docs/generate.md): of each
// head the pages that were read last, of one step those with the most mass.
TEST(Selection, MissesAreNearThoseOfRealReasoning) {
  DecodeOptions options;
  DecodeGenerator generator(options);
  struct Last {
    uint64_t step;
    float mass;
    uint32_t page;
  };
  std::vector<std::vector<Last>> last(16);
  const std::vector<size_t> budgets = {8, 16, 32, 64};
  std::vector<double> misses(4);
  double wanted = 0;
  std::vector<prefetch::Access> accesses;
  for (uint64_t step = 0; step < options.tokens; ++step) {
    accesses.clear();
    generator.step(accesses);
    for (const prefetch::Access& access : accesses) {
      auto& of_head = last[access.head];
      const auto known = std::ranges::find(of_head, access.page, &Last::page);
      const auto place = static_cast<size_t>(known - of_head.begin());
      for (size_t i = 0; i < 4; ++i) {
        misses[i] += known == of_head.end() || place >= budgets[i] ? 1 : 0;
      }
      ++wanted;
    }
    for (const prefetch::Access& access : accesses) {
      auto& of_head = last[access.head];
      std::erase_if(of_head, [&](const Last& each) { return each.page == access.page; });
      of_head.push_back({step, access.mass, access.page});
    }
    for (auto& of_head : last) {
      std::ranges::sort(of_head, [](const Last& a, const Last& b) {
        return std::tie(a.step, a.mass, a.page) > std::tie(b.step, b.mass, b.page);
      });
      of_head.resize(std::min<size_t>(of_head.size(), 64));
    }
  }
  for (size_t i = 0; i < 4; ++i) {
    misses[i] /= wanted;
    RecordProperty("misses_of_" + std::to_string(budgets[i]), std::to_string(misses[i]));
  }
  EXPECT_NEAR(misses[0], 0.632, 0.06);
  EXPECT_NEAR(misses[1], 0.338, 0.11);
  EXPECT_NEAR(misses[2], 0.090, 0.01);
  EXPECT_NEAR(misses[3], 0.014, 0.007);
}

TEST(Selection, TheSameSeedReadsTheSame) {
  DecodeOptions options;
  options.tokens = 300;
  const Decoded one(options);
  const Decoded two(options);
  EXPECT_EQ(one.read, two.read);
  options.seed = 2;
  EXPECT_NE(one.read, Decoded(options).read);
}

}  // namespace
}  // namespace farpage::decode
