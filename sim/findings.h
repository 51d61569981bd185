#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farpage {

// Violations that a run must never show.
enum class FindingKind : uint8_t {
  kWrongBytes,           // I1
  kWentBack,             // I2
  kLateLandings,         // I4
  kMissedDeadlines,      // I3
  kLostAcknowledgedPut,  // of a page never evicted or removed, with a holder alive throughout
  kUnfinished,           // something that never ended, or that did not work again afterwards
  kEndedViews,           // I5: a view was used after its end
};
inline constexpr size_t kFindingKinds = 7;
using FindingCounts = std::array<uint64_t, kFindingKinds>;
inline constexpr std::array<std::string_view, kFindingKinds> kFindingNames = {
    "wrong_bytes", "went_back",   "late_landings", "missed_deadlines", "lost_acknowledged_puts",
    "unfinished",  "ended_views",
};

struct Finding {
  FindingKind kind;
  std::string sentence;

  friend bool operator==(const Finding&, const Finding&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Finding& finding) {
    return out << describe(finding);
  }
  // One line for people.
  friend std::string describe(const Finding& finding) {
    return std::string(kFindingNames[static_cast<size_t>(finding.kind)]) + ": " + finding.sentence;
  }
};

inline FindingCounts count_by_kind(const std::vector<Finding>& findings) {
  FindingCounts counts{};
  for (const Finding& finding : findings) ++counts[static_cast<size_t>(finding.kind)];
  return counts;
}

class Findings {
 public:
  void add(FindingKind kind, std::string sentence) { all_.push_back({kind, std::move(sentence)}); }

  bool empty() const { return all_.empty(); }
  const std::vector<Finding>& all() const { return all_; }

 private:
  std::vector<Finding> all_;
};

}  // namespace farpage
