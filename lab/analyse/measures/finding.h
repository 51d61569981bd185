#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/analyse/measures/bootstrap.h"

namespace farpage::analyse {

struct Figure {
  std::string_view key;  // in JSON
  std::string label;
  Estimate estimate;
};

// A finding with an interval around its figure.
enum class Answer : uint8_t { kYes, kNo, kOpen, kNotAsked };
inline constexpr std::array<std::string_view, 4> kAnswerNames = {"yes", "no", "open", "not asked"};

// Yes where all of the interval lies above `bound`, no where all of it lies below.
Answer answer_above(const Estimate& estimate, double bound);

// The sentence for an answer; empty of a question that was not asked.
std::string in_words(Answer answer, std::string_view yes, std::string_view no,
                     std::string_view open);

// A question that was asked of a trace, and what came out.
struct Finding {
  std::string_view name;  // as in docs/analyse.md: H1
  std::string question;   // in a line
  Answer answer = Answer::kNotAsked;
  std::string verdict = {};  // in a sentence; what is missing, where it was not asked
  std::vector<Figure> figures = {};
};

// Which needs something that the trace does not have.
Finding not_asked(std::string_view name, std::string question, std::string why);

}  // namespace farpage::analyse
