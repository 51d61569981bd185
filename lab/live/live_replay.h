#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "lab/live/lane_wire.h"
#include "lab/paging/access_trace.h"
#include "lab/vtime/timed_replay.h"
#include "prefetch/registry/registry.h"
#include "tier/client.h"
#include "transport/fabric.h"

namespace farpage::live {

struct LiveOptions {
  vtime::TimedOptions timed;       // without tiers: the node is the only one
  uint64_t deadline_ns = kSecond;  // of each fetch
  std::string name_space = "live";
};

struct LiveHooks {
  std::function<bool()> interrupted = [] { return false; };           // asked before each step
  std::function<void(uint64_t accesses)> progress = [](uint64_t) {};  // that were replayed
};

// Replays a trace step by step as vtime::replay() does, by the same policies and prefetchers, with
// pages that are really fetched: every page of the trace lies at a node, and a step computes by
// waiting. On one thread.
class LiveReplay {
 public:
  // Puts all pages, and reads each once, so that their places are known. `client` and `trace`
  // outlive it. Fails where the node does not take all of them.
  static Result<LiveReplay> create(Client& client, Fabric& fabric, const paging::AccessTrace& trace,
                                   const LiveOptions& options, const LiveHooks& hooks);

  // The least that a budget must hold.
  uint64_t step_pages() const { return step_pages_; }
  // Fails where it is interrupted, or the budget is less than what a step demands.
  Result<vtime::TimedResult> run(uint64_t budget_pages, prefetch::Policy& policy,
                                 prefetch::Prefetcher& prefetcher, const LiveHooks& hooks);

 private:
  LiveReplay(Client& client, Fabric& fabric, const paging::AccessTrace& trace,
             const LiveOptions& options)
      : client_(&client), fabric_(&fabric), trace_(&trace), options_(options) {}

  Result<void> measure_steps();
  Result<void> put_all(const LiveHooks& hooks);
  Result<void> read_all();

  Client* client_;
  Fabric* fabric_;
  const paging::AccessTrace* trace_;
  LiveOptions options_;
  uint64_t step_pages_ = 0;
  std::vector<PageKey> keys_;
};

}  // namespace farpage::live
