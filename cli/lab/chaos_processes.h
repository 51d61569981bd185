#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "chaos/processes/campaign.h"

namespace farpage {

// farpage-lab chaos --processes
struct ProcessesArguments {
  processes::CampaignOptions campaign;
  std::vector<std::string> faults;  // empty: all
  std::string json;
};

Result<void> prepare(ProcessesArguments& arguments);
// The program's exit code.
Result<int> run_processes(const ProcessesArguments& arguments);

}  // namespace farpage
