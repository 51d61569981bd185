#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "chaos/campaign.h"
#include "report/json.h"

namespace farpage::chaos {
namespace {

boost::json::object by_kind(const KindCounts& counts) {
  boost::json::object json;
  for (Kind kind = 0; kind < kKinds; ++kind) json[kind_name(kind)] = counts[kind];
  return json;
}

uint64_t sum(const KindCounts& counts) {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  return total;
}

}  // namespace

boost::json::object campaign_json(const CampaignResult& result, const std::string& version) {
  const CampaignCounts& counts = result.counts;
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
      {"runs", counts.runs},
      {"runs_apart", counts.runs_apart},
      {"actions", counts.actions},
      {"pages_ready", counts.ready},
      {"pages_recompute", counts.recompute},
      {"pages_held", counts.held},
      {"pages_hedged", counts.hedged},
      {"fetches_hopeless", counts.hopeless},
      {"fetches_cancelled", counts.cancelled},
      {"puts", counts.puts},
      {"puts_acknowledged", counts.puts_acknowledged},
      {"removes_acknowledged", counts.removes_acknowledged},
      {"pages_kept", counts.pages_kept},
      {"pages_handed_over", counts.pages_handed_over},
      {"lost_to_fast_epochs", counts.lost_to_fast_epochs},
      {"faults", sum(counts.injected)},
      {"injected", by_kind(counts.injected)},
      {"caught", by_kind(counts.caught)},
  };
  boost::json::array never_caught;
  for (const Kind kind : result.never_caught()) never_caught.emplace_back(kind_name(kind));
  json["never_caught"] = std::move(never_caught);
  for (size_t kind = 0; kind < kFindingKinds; ++kind) {
    json[kFindingNames[kind]] = counts.findings[kind];
  }
  json["crashed"] = counts.crashed;
  boost::json::array seeds;
  for (const uint64_t seed : result.failed_seeds) seeds.emplace_back(seed);
  json["failed_seeds"] = std::move(seeds);
  if (result.first) {
    boost::json::array plan;
    for (const std::string& action : result.first->plan) plan.emplace_back(action);
    json["first_failure"] = {{"seed", result.first->seed},
                             {"what", result.first->what},
                             {"shortest_plan", std::move(plan)}};
  }
  return json;
}

std::string campaign_table(const CampaignResult& result) {
  const CampaignCounts& counts = result.counts;
  std::string text = fmt::format(
      "{} runs from seed {} in {:.1f} s: {} clients, {} nodes, {} replicas; in {} runs, nodes keep "
      "headers and payloads apart\n"
      "{} pages ready, {} to recompute; {} fetches had less time than a read takes, {} were let "
      "go; "
      "{} of {} puts acknowledged; {} pages had to be there at "
      "the end, {} of {} that were handed over were lost to fast epochs; {} faults\n\n"
      "{:<16} {:>12} {:>12}\n",
      counts.runs, result.options.seed, result.seconds, result.options.plan.clients,
      result.options.plan.nodes, result.options.plan.replicas, counts.runs_apart, counts.ready,
      counts.recompute, counts.hopeless, counts.cancelled, counts.puts_acknowledged, counts.puts,
      counts.pages_kept, counts.lost_to_fast_epochs, counts.pages_handed_over, sum(counts.injected),
      "kind", "injected", "caught");
  for (Kind kind = 0; kind < kKinds; ++kind) {
    text += fmt::format("{:<16} {:>12} {:>12}\n", kind_name(kind), counts.injected[kind],
                        counts.caught[kind]);
  }
  text += '\n';
  for (size_t kind = 0; kind < kFindingKinds; ++kind) {
    text += fmt::format("{:<22} {:>6}\n", kFindingNames[kind], counts.findings[kind]);
  }
  text += fmt::format("{:<22} {:>6}\n", "crashed", counts.crashed);
  if (result.first) {
    text += fmt::format("\nseed {}: {}\nthe shortest plan that still fails:\n", result.first->seed,
                        result.first->what);
    for (const std::string& action : result.first->plan) text += "  " + action + '\n';
  }
  return text;
}

}  // namespace farpage::chaos
