#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "chaos/campaign.h"
#include "chaos/report_parts.h"
#include "report/json.h"

namespace farpage::chaos {

boost::json::object campaign_json(const CampaignResult& result, const std::string& version) {
  const RunCounts& counts = result.counts;
  boost::json::object json{
      {"version", version},
      {"hardware", hardware_json()},
      {"seed", result.options.seed},
      {"seeds", result.options.seeds},
      {"jobs", result.options.jobs},
      {"clients", result.options.plan.clients},
      {"nodes", result.options.plan.nodes},
      {"replicas", result.options.plan.replicas},
      {"seconds", result.seconds},
  };
  for (const NamedCount& named : kRunCounts) json[named.name] = counts.*named.count;
  json["faults"] = sum_of(counts.injected);
  json["injected"] = counts_json(kKindNames, counts.injected);
  json["caught"] = counts_json(kKindNames, counts.caught);
  const std::vector<std::string_view> never_caught = result.never_caught();
  json["never_caught"] = boost::json::array(never_caught.begin(), never_caught.end());
  const boost::json::object found = counts_json(kFindingNames, counts.found);
  json.insert(found.begin(), found.end());
  json["crashed"] = counts.crashed;
  json["failed_seeds"] = boost::json::array(result.failed_seeds.begin(), result.failed_seeds.end());
  if (result.first) {
    const auto& [seed, what, plan] = *result.first;
    json["first_failure"] = {{"seed", seed},
                             {"what", what},
                             {"shortest_plan", boost::json::array(plan.begin(), plan.end())}};
  }
  return json;
}

std::string campaign_table(const CampaignResult& result) {
  const RunCounts& counts = result.counts;
  std::string text = fmt::format(
      "{} runs from seed {} in {:.1f} s: {} clients, {} nodes, {} replicas; in {} runs, nodes keep "
      "headers and payloads apart\n"
      "{} pages ready, {} to recompute; {} fetches had less time than a read takes, {} were let "
      "go; "
      "{} of {} puts acknowledged; {} pages had to be there at "
      "the end, {} of {} that were handed over were lost to fast epochs; {} faults\n\n",
      counts.runs, result.options.seed, result.seconds, result.options.plan.clients,
      result.options.plan.nodes, result.options.plan.replicas, counts.runs_apart, counts.ready,
      counts.recompute, counts.hopeless, counts.cancelled, counts.puts_acknowledged, counts.puts,
      counts.pages_kept, counts.lost_to_fast_epochs, counts.pages_handed_over,
      sum_of(counts.injected));
  text += kind_rows({kKindNames, counts.injected, counts.caught, "caught", 12}) + '\n';
  text += finding_rows(kFindingNames, counts.found) + finding_row("crashed", counts.crashed);
  if (result.first) {
    text += fmt::format("\nseed {}: {}\nthe shortest plan that still fails:\n", result.first->seed,
                        result.first->what);
    text += indented(result.first->plan);
  }
  return text;
}

}  // namespace farpage::chaos
