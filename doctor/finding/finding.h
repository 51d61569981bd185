#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/finding/backend_set.h"

namespace farpage::doctor {

enum class Level : uint8_t { kOk, kNote, kWarning, kProblem };

const char* level_name(Level level);

// The result of one check. Every check stands in docs/doctor.md.
struct Finding {
  std::string subject = {};
  std::string check = {};
  Level level = Level::kOk;
  std::string text = {};     // a sentence
  std::string command = {};  // what mends it, to be run as it stands
  BackendSet needed_by = BackendSet::every();
};

// A problem that concerns no asked backend is only a note.
void demote(std::vector<Finding>& findings, const BackendSet& asked);

bool has_problem(const std::vector<Finding>& findings);

// For a terminal: a heading for each subject, a line for each finding and for each command.
std::string format_findings(const std::vector<Finding>& findings);

}  // namespace farpage::doctor
