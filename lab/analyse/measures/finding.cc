#include "lab/analyse/measures/finding.h"

#include <utility>

namespace farpage::analyse {

Answer answer_above(const Estimate& estimate, double bound) {
  if (estimate.low > bound) return Answer::kYes;
  return estimate.high < bound ? Answer::kNo : Answer::kOpen;
}

std::string in_words(Answer answer, std::string_view yes, std::string_view no,
                     std::string_view open) {
  switch (answer) {
    case Answer::kYes:
      return std::string(yes);
    case Answer::kNo:
      return std::string(no);
    case Answer::kOpen:
      return std::string(open);
    case Answer::kNotAsked:
      break;
  }
  return {};
}

Finding not_asked(std::string_view name, std::string question, std::string why) {
  return {name, std::move(question), Answer::kNotAsked, std::move(why)};
}

}  // namespace farpage::analyse
