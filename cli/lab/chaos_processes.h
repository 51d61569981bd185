#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "chaos/processes/campaign.h"

namespace farpage {

// farpage-lab chaos --processes. `faults`: the kinds that are meant; empty: all.
Result<void> prepare_processes(processes::CampaignOptions& campaign,
                               const std::vector<std::string>& faults);
// The program's exit code. `json`: where the report goes.
Result<int> run_processes(const processes::CampaignOptions& campaign, const std::string& json);

}  // namespace farpage
