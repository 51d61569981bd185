#pragma once

#include "lab/analyse/questions/foretelling.h"
#include "lab/analyse/questions/question.h"

namespace farpage::analyse {

// H1: whether the pages used last are those that the next five steps demand.
class RecencyQuestion final : public Question {
 public:
  RecencyQuestion(uint64_t budget_pages, size_t parts)
      : budget_pages_(budget_pages), foretelling_(5, parts) {}

  void step(const Step& step, const Ahead& ahead, const Reuse& reuse) override;
  Finding end(uint64_t seed) const override;

 private:
  const uint64_t budget_pages_;
  Foretelling foretelling_;
};

}  // namespace farpage::analyse
