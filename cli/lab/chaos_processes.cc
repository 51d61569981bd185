#include "cli/lab/chaos_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "backends/backends.h"
#include "base/units.h"
#include "chaos/campaign_options.h"
#include "cli/client/node_connection.h"
#include "cli/client/node_conversation.h"
#include "cli/client/node_program.h"
#include "cli/client/signals.h"
#include "cli/exit_code.h"
#include "cli/version.h"
#include "client/embedded/private_folder.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

constexpr uint64_t kStatusMs = 500;  // for a node to say who it is
// So that a node's budget has room for the most clients there may be, also while they come back.
constexpr uint64_t kStagingBytes = 4 * kMiB;

processes::Program this_program(const Interrupts& interrupts, std::optional<Progress>& progress) {
  processes::Program program;
  program.node_program = node_program();
  program.connect = [&interrupts](const std::string& endpoints, const std::string& backend) {
    ConnectOptions options;
    options.backend = backend;
    options.etcd.endpoints = endpoints;
    options.client.staging_bytes = kStagingBytes;
    return NodeConnection::open(options, interrupts)
        .map([](std::unique_ptr<NodeConnection> opened) {
          const std::shared_ptr<NodeConnection> connection = std::move(opened);
          return std::shared_ptr<Client>(connection, &connection->client());
        });
  };
  program.status = [&interrupts](const std::string& address) {
    return ask_status(address, {}, kStatusMs, interrupts);
  };
  program.interrupted = [&interrupts] { return interrupts.interrupted(); };
  program.progress = [&progress](uint64_t begun) {
    if (progress) progress->update(begun);
  };
  return program;
}

// Over the others bytes take ways of their own, which nothing here disturbs.
Result<void> choose_network(processes::CampaignOptions& campaign) {
  const std::array backends = {&natural_backend(NodesAt::kTcpPort),
                               &natural_backend(NodesAt::kUnixSocket)};
  const auto found = std::ranges::find(backends, campaign.backend, &BackendRegistration::name);
  if (found == backends.end()) {
    return fail(Code::kInvalid,
                fmt::format("--processes runs over {} or {}, not over '{}'", backends[0]->name(),
                            backends[1]->name(), campaign.backend));
  }
  campaign.has_network = (*found)->nodes_at == NodesAt::kTcpPort;
  return {};
}

}  // namespace

Result<void> prepare_processes(processes::CampaignOptions& campaign,
                               const std::vector<std::string>& faults) {
  const auto kinds = chaos::choose_kinds(processes::kKindNames, faults, " of processes");
  if (!kinds) return tl::unexpected(kinds.error());
  campaign.plan.kinds = *kinds;
  return choose_network(campaign).and_then([&] { return campaign.validate(); });
}

Result<int> run_processes(const processes::CampaignOptions& campaign, const std::string& json) {
  const Interrupts interrupts;
  Result<PrivateFolder> folder = PrivateFolder::create();
  if (!folder) return tl::unexpected(folder.error());
  std::optional<Progress> progress;
  if (json != "-") {
    progress.emplace(fmt::format("attacking processes, seed {}", campaign.plan.seed),
                     "disturbances", campaign.plan.disturbances);
  }
  const auto result =
      processes::run_campaign(campaign, folder->path(), this_program(interrupts, progress));
  progress.reset();
  if (!result) {
    if (result.error().code == Code::kTimeout) folder->keep();  // as its message says
    return tl::unexpected(result.error());
  }
  const Result<void> written =
      write_json_and_table(json, campaign_json(*result, version()), campaign_table(*result));
  if (!written) return tl::unexpected(written.error());
  if (!result->holds()) {
    return fail(Code::kSystem,
                fmt::format("{} findings with seed {}; logs are in {}", result->findings.size(),
                            campaign.plan.seed, folder->keep()));
  }
  if (result->interrupted) return fail(Code::kAborted, "interrupted");
  return kExitDone;
}

}  // namespace farpage
