#include "doctor/finding/finding.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage::doctor {

const char* level_name(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "unknown";
}

void demote(std::vector<Finding>& findings, const BackendSet& asked) {
  for (Finding& finding : findings) {
    if (!finding.needed_by.meets(asked)) finding.level = std::min(finding.level, Level::kNote);
  }
}

bool has_problem(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.level == Level::kProblem; });
}

std::string format_findings(const std::vector<Finding>& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.check.size());
  std::string text;
  const std::string* subject = nullptr;
  for (const Finding& finding : findings) {
    if (subject == nullptr || *subject != finding.subject) {
      text += fmt::format("{}{}\n", subject == nullptr ? "" : "\n", finding.subject);
    }
    subject = &finding.subject;
    text += fmt::format("  {:<8} {:<{}}  {}\n", level_name(finding.level), finding.check, width,
                        finding.text);
    if (!finding.command.empty()) {
      text += fmt::format("  {:<8} {:<{}}    $ {}\n", "", "", width, finding.command);
    }
  }
  return text;
}

}  // namespace farpage::doctor
