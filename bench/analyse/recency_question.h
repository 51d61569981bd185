#pragma once

#include "bench/analyse/foretelling.h"
#include "bench/analyse/question.h"

namespace farpage::analyse {

// H1: whether the pages used last are those that the next five steps demand.
class RecencyQuestion final : public Question {
 public:
  explicit RecencyQuestion(uint64_t budget_pages) : budget_pages_(budget_pages) {}

  void step(const Step& step, const Ahead& ahead, const Reuse& reuse) override;
  Finding end(uint64_t seed) const override;

 private:
  const uint64_t budget_pages_;
  Foretelling foretelling_ = Foretelling(5);
};

}  // namespace farpage::analyse
