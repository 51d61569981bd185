#pragma once

#include <vector>

#include "lab/analyse/questions/question.h"
#include "prefetch/access.h"
#include "prefetch/importance/hot_spots.h"

namespace farpage::analyse {

// B-H2: whether single queries look at what all of them together look at most. A step is a query.
// Of a trace with masses; `all` are those of all of it.
class HotSpotQuestion final : public Question {
 public:
  HotSpotQuestion(prefetch::Masses all, size_t parts);

  void step(const Step& step, const Ahead& ahead, const Reuse& reuse) override;
  Finding end(uint64_t seed) const override;

 private:
  const uint64_t pages_;  // that were ever looked at
  std::vector<prefetch::PageNumber> hot_;
  std::vector<Share> overlap_;     // of each part, summed over queries
  std::vector<Share> attainable_;  // if a query's were all hot
  uint64_t queries_ = 0;
};

}  // namespace farpage::analyse
