#include "cli/lab/replay_live.h"

#include <utility>

#include "base/units.h"
#include "cli/client/signals.h"
#include "cli/lab/shaped_link.h"
#include "integrity/page_header.h"
#include "lab/live/live_replay.h"
#include "report/progress.h"

namespace farpage {
namespace {

// What the trace's pages take at a node, and some more, so that none has to go for another.
uint64_t pool_bytes_for(const paging::AccessTrace& trace, uint64_t page_bytes) {
  const uint64_t slots = trace.pages + trace.pages / 4 + 1'024;
  return slots * round_up(page_bytes + sizeof(PageHeader), sizeof(PageHeader));
}

}  // namespace

Result<std::vector<vtime::TimedRun>> run_live(const LiveArguments& arguments,
                                              const paging::AccessTrace& trace,
                                              const vtime::TimedOptions& options,
                                              const vtime::TimedPlan& plan) {
  const Interrupts interrupts;
  ConnectOptions connect = arguments.connect;
  const auto link = shape_link(connect);
  connect.own_node.page_bytes = options.page_bytes;
  connect.own_node.pool_bytes =
      arguments.pool_bytes > 0 ? arguments.pool_bytes : pool_bytes_for(trace, options.page_bytes);
  auto connection = NodeConnection::open(connect, interrupts);
  if (!connection) return tl::unexpected(connection.error());
  NodeConnection& opened = **connection;

  live::LiveHooks hooks;
  hooks.interrupted = [&interrupts] { return interrupts.interrupted(); };
  live::LiveOptions live_options;
  live_options.timed = options;
  live_options.deadline_ns = arguments.deadline_ns;
  live_options.name_space = unique_name_space("live", opened.has_own_node());
  auto replay =
      live::LiveReplay::create(opened.client(), opened.fabric(), trace, live_options, hooks);
  if (!replay) return tl::unexpected(replay.error());
  (*link)->shape({arguments.link.latency_ns, arguments.link.bytes_per_s});

  Progress progress("live", "accesses", plan.runs() * trace.accesses);
  uint64_t accesses = 0;
  hooks.progress = [&](uint64_t more) { progress.update(accesses += more); };
  auto all = vtime::run_each(
      trace, plan, false,
      [&](uint64_t budget_pages, prefetch::Policy& policy, prefetch::Prefetcher& prefetcher,
          const vtime::MakePlacement&) {
        return replay->run(budget_pages, policy, prefetcher, hooks);
      },
      [](size_t) {});
  if (!all) return all;
  for (vtime::TimedRun& run : *all) run.is_live = true;
  return all;
}

}  // namespace farpage
