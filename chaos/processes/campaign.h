#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "chaos/processes/engine.h"
#include "chaos/processes/plan.h"
#include "control/messages.h"
#include "sim/findings.h"
#include "tier/client.h"

namespace farpage::processes {

struct CampaignOptions {
  PlanOptions plan;
  std::string backend;      // over which clients reach nodes
  bool has_network = true;  // between them; else nothing of one is disturbed
  uint64_t replicas = 2;
  uint64_t clients = 4;
  Destination destination = Destination::kHost;
  uint64_t outage_s = 0;  // at the end etcd is gone for so long; 0: it is not

  // Also leaves out the kinds for which there is no network.
  Result<void> validate();
};

// Functions that the campaign needs from the program. A client is reached through etcd, and stands
// on nothing that others use.
struct Program {
  std::string node_program;  // a path
  std::function<Result<std::shared_ptr<Client>>(const std::string& endpoints,
                                                const std::string& backend)>
      connect;
  std::function<Result<StatusReply>(const std::string& address)> status;
  std::function<bool()> interrupted;
  std::function<void(uint64_t)> progress;  // disturbances that have begun
};

struct CampaignResult {
  CampaignOptions options;
  uint64_t lease_ms = 0;
  bool interrupted = false;
  uint64_t rounds = 0;
  uint64_t ready = 0;
  std::vector<uint64_t> recompute;  // by Reason
  uint64_t puts = 0;
  uint64_t puts_acknowledged = 0;
  uint64_t removes = 0;
  uint64_t removes_acknowledged = 0;
  uint64_t pages_kept = 0;  // that had to be there after a round
  uint64_t pages_gone = 0;  // that were put anew, because they were not, and need not have been
  KindCounts injected{};
  KindCounts felt{};
  uint64_t starts_again = 0;  // of nodes that ended by themselves, with a word
  // From a node's loss until every kept key was served by the others: the end of the first fetch of
  // all of them, 16 at a time, that brought each; by how it was lost.
  std::vector<double> killed_s;
  std::vector<double> parted_s;
  std::vector<double> settle_s;  // from a round's last disturbance until all was well
  std::vector<uint64_t> lateness_ns;
  uint64_t without_view_ns = 0;  // of a client, the longest
  uint64_t delay_most_ns = 0;    // the watchdog's
  double delay_p99_ns = 0;
  double outage_s = 0;                   // that etcd was gone for at the end
  std::optional<double> full_service_s;  // from its first answer until every key was put and read
  std::vector<Finding> findings;
  std::vector<std::string> history;  // disturbances, with their times
  double seconds = 0;

  bool holds() const { return findings.empty(); }
};

// Attacks real processes: memory nodes and an etcd, all of which it starts, each on a host of its
// own over tcp. `folder`: a private one, for their logs and files. kTimeout: they did not come up,
// and the logs say why. Starts processes: call it before
// this one has any other thread; they end with the thread that calls it.
Result<CampaignResult> run_campaign(const CampaignOptions& options, const std::string& folder,
                                    const Program& program);

boost::json::object campaign_json(const CampaignResult& result, const std::string& version);
std::string campaign_table(const CampaignResult& result);

}  // namespace farpage::processes
