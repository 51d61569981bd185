#include "lab/decode/decode_truth.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string_view>

namespace farpage::decode {
namespace {

constexpr std::array<std::string_view, 3> kPhaseNames = {"explore", "verify", "conclude"};

}  // namespace

std::string truth_csv(const DecodeGenerator& generator) {
  const Script& script = generator.script();
  std::string text = kTruthHeader;
  for (size_t page = 0; page < generator.pages().size(); ++page) {
    const uint64_t position = generator.pages()[page].position;
    fmt::format_to(std::back_inserter(text), "{},{},", page,
                   script.milestones()[position] ? "milestone" : "other");
    if (const auto segment = script.segment_of(position)) {
      const auto phase = static_cast<size_t>(script.segments()[*segment].phase);
      fmt::format_to(std::back_inserter(text), "{},{}\n", *segment, kPhaseNames[phase]);
    } else {
      text += ",\n";
    }
  }
  return text;
}

}  // namespace farpage::decode
