#include "prefetch/importance/token_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace farpage::prefetch {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// Of accesses, given as step and head.
std::vector<uint64_t> tokens_of(const HeadLayout& layout,
                                const std::vector<std::pair<uint64_t, uint32_t>>& accesses) {
  TokenCounter counter(layout);
  std::vector<uint64_t> tokens;
  for (const auto& [step, head] : accesses) {
    Access access = {0, step, 0};
    access.head = head;
    tokens.push_back(counter.index_of(access));
  }
  EXPECT_EQ(counter.tokens(), tokens.empty() ? 0 : tokens.back() + 1);
  return tokens;
}

TEST(TokenCounter, WhereThereIsOneLayerEachStepIsAToken) {
  EXPECT_THAT(tokens_of({1, 4}, {{7, 0}, {7, 1}, {9, 2}, {100, 3}}), ElementsAre(0, 0, 1, 2));
}
TEST(TokenCounter, StepsThatGoFromLayerToLayerAreOfOneToken) {
  // Heads 0 and 1 are the first layer's, 2 and 3 the second's, 4 and 5 the third's.
  EXPECT_THAT(tokens_of({3, 2}, {{0, 0}, {0, 1}, {1, 3}, {2, 4}, {3, 1}, {4, 2}, {5, 5}, {6, 0}}),
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 2));
}
TEST(TokenCounter, ALayerThatComesAgainIsOfTheNextToken) {
  EXPECT_THAT(tokens_of({3, 2}, {{0, 4}, {1, 5}, {2, 3}, {3, 2}}), ElementsAre(0, 1, 2, 3));
}
TEST(TokenCounter, WithAllLayersInAStepEachStepIsAToken) {
  EXPECT_THAT(tokens_of({2, 1}, {{5, 0}, {5, 1}, {5, 0}, {6, 1}, {6, 0}, {9, 0}, {9, 1}}),
              ElementsAre(0, 0, 0, 1, 1, 2, 2));
}
TEST(TokenCounter, TokensAreTheSameHoweverStepsAreNumberedAndWhateverLayersAreLeftOut) {
  constexpr uint32_t kLayers = 4;
  std::vector<std::pair<uint64_t, uint32_t>> by_token;
  std::vector<std::pair<uint64_t, uint32_t>> by_layer;
  for (uint64_t token = 0; token < 64; ++token) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      if ((token * 7 >> layer) % 2 == 0) continue;
      by_token.emplace_back(token, layer);
      by_layer.emplace_back(token * kLayers + layer, layer);
    }
  }
  EXPECT_THAT(tokens_of({kLayers, 1}, by_layer),
              ElementsAreArray(tokens_of({kLayers, 1}, by_token)));
}

}  // namespace
}  // namespace farpage::prefetch
