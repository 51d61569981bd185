#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tier/client.h"
#include "tier/link/fleet_link.h"
#include "tier/stats/lane_counters.h"

namespace farpage {
namespace {

void describe_pages(const LaneCounters& lanes, MetricVisitor& visitor) {
  visitor.counter("farpage_client_ready_pages_total", "Pages that were ready",
                  static_cast<double>(lanes.ready.value()));
  visitor.counter("farpage_client_ready_bytes_total", "Bytes of the pages that were ready",
                  static_cast<double>(lanes.ready_bytes.value()));
  visitor.family("farpage_client_recompute_pages_total", "Pages to recompute, by reason",
                 MetricKind::kCounter);
  for (int i = 0; i < kReasons; ++i) {
    const auto reason = static_cast<Reason>(i);
    if (reason == Reason::kNone) continue;
    visitor.value({{"reason", reason_name(reason)}},
                  static_cast<double>(lanes.recompute[static_cast<size_t>(i)].value()));
  }
  visitor.family("farpage_client_fetch_seconds", "From the start of a fetch to its last verdict",
                 MetricKind::kHistogram);
  visitor.histogram({}, lanes.fetches);
  visitor.family("farpage_client_page_seconds", "From the start of a fetch to a page's verdict",
                 MetricKind::kHistogram);
  visitor.histogram({{"verdict", "ready"}}, lanes.ready_pages);
  visitor.histogram({{"verdict", "recompute"}}, lanes.recompute_pages);
}

void describe_lanes(const LaneCounters& lanes, MetricVisitor& visitor) {
  const auto count = [&visitor](std::string_view name, std::string_view help,
                                const Counter& counter) {
    visitor.counter(name, help, static_cast<double>(counter.value()));
  };
  count("farpage_client_posts_total", "Batches handed to the transport", lanes.posts);
  count("farpage_client_operations_total", "Reads in those batches", lanes.operations);
  count("farpage_client_located_pages_total", "Pages whose location was cached", lanes.located);
  count("farpage_client_index_looks_total", "Pages that were looked up in the node's index",
        lanes.index_looks);
  count(
      "farpage_client_channels_ended_total",
      "Data paths given up: an operation did not end within the read window, or a node was silent",
      lanes.channels_ended);
  count("farpage_client_stray_completions_total",
        "Completions that came again, and were not counted", lanes.strays);
  count("farpage_client_next_replica_pages_total",
        "Pages asked of another replica, after one that did not have them", lanes.next_replicas);
  count("farpage_client_hedges_total", "Pages asked of another replica beside one that was slow",
        lanes.hedges);
  count("farpage_client_hedges_won_total", "Hedges that brought their page first",
        lanes.hedges_won);
  count("farpage_client_straight_pages_total",
        "Pages copied to a GPU straight from a node's memory on this host", lanes.straight);
  count("farpage_client_push_requests_total", "Pushes asked of the node", lanes.push_requests);
  count("farpage_client_quarantined_places_total",
        "Places of push lanes whose page came too late, put in quarantine",
        lanes.quarantined_places);
  count("farpage_client_late_verdicts_total", "Verdicts given after their deadline",
        lanes.late_verdicts);
  visitor.gauge("farpage_client_latest_verdict_seconds", "The most that a verdict was late",
                static_cast<double>(lanes.latest_ns.value()) / 1e9);
}

// Where a node serves alone, these families have no values: there is no other node to ask. Nor has
// a node that the client has had no use for.
void describe_nodes(const FleetLink& fleet, uint64_t now_ns, MetricVisitor& visitor) {
  struct Family {
    const char* name;
    const char* help;
    MetricKind kind;
    uint64_t (*value)(NodeSession& link, uint64_t now_ns);
  };
  static constexpr Family kFamilies[] = {
      {"farpage_client_node_reachable", "1 while the client holds a lease of the node, else 0",
       MetricKind::kGauge,
       [](NodeSession& link, uint64_t now_ns) -> uint64_t {
         const auto view = link.view();
         return view != nullptr && view->valid(now_ns) ? 1 : 0;
       }},
      {"farpage_client_breaker_open", "1 while the node is passed over, because it keeps failing",
       MetricKind::kGauge,
       [](NodeSession& link, uint64_t) -> uint64_t { return link.breaker().open() ? 1 : 0; }},
      {"farpage_client_breaker_opened_total", "How often the node came to be passed over",
       MetricKind::kCounter,
       [](NodeSession& link, uint64_t) { return link.breaker().times_opened(); }},
      {"farpage_client_reports_total", "Pages that the node was asked to look at again",
       MetricKind::kCounter, [](NodeSession& link, uint64_t) { return link.reports(); }},
  };
  const auto links = fleet.alone() ? std::vector<std::shared_ptr<NodeSession>>() : fleet.links();
  for (const Family& family : kFamilies) {
    visitor.family(family.name, family.help, family.kind);
    for (const auto& link : links) {
      if (link->is_unused()) continue;
      visitor.value({{"node", fmt::format("{:016x}", link->peer())}},
                    static_cast<double>(family.value(*link, now_ns)));
    }
  }
}

// Where the backend does not choose among paths, these families have no values.
void describe_paths(const std::vector<PathUse>& paths, MetricVisitor& visitor) {
  struct Family {
    const char* name;
    const char* help;
    MetricKind kind;
    uint64_t PathUse::*number;
  };
  constexpr MetricKind kCounter = MetricKind::kCounter;
  static constexpr Family kFamilies[] = {
      {"farpage_client_path_connections", "Connections over a path that are open",
       MetricKind::kGauge, &PathUse::connections},
      {"farpage_client_path_connected_total", "Connections made over a path", kCounter,
       &PathUse::connected},
      {"farpage_client_path_failed_total", "Connections that did not come about", kCounter,
       &PathUse::failed},
      {"farpage_client_path_broken_total", "Connections given up: broken, or silent for too long",
       kCounter, &PathUse::broken},
      {"farpage_client_path_reads_total", "Reads that have come over a path", kCounter,
       &PathUse::reads},
      {"farpage_client_path_read_bytes_total", "Bytes read over a path", kCounter,
       &PathUse::read_bytes},
      {"farpage_client_path_writes_total", "Writes acknowledged over a path", kCounter,
       &PathUse::writes},
      {"farpage_client_path_write_bytes_total", "Bytes written over a path", kCounter,
       &PathUse::write_bytes},
  };
  for (const Family& family : kFamilies) {
    visitor.family(family.name, family.help, family.kind);
    for (const PathUse& path : paths) {
      visitor.value({{"path", path.path}}, static_cast<double>(path.*family.number));
    }
  }
  visitor.family("farpage_client_path_link_bytes_per_second", "Rate of this host's link",
                 MetricKind::kGauge);
  for (const PathUse& path : paths) {
    if (path.link_bits_per_s == 0) continue;
    visitor.value({{"path", path.path}}, static_cast<double>(path.link_bits_per_s) / 8);
  }
}

}  // namespace

void Client::describe(MetricVisitor& visitor) const {
  const ClientCounters& counters = *fleet_->counters();
  LaneCounters lanes;
  counters.add_to(lanes);
  describe_pages(lanes, visitor);
  describe_lanes(lanes, visitor);
  visitor.family("farpage_client_puts_total", "Pages put, by what became of them",
                 MetricKind::kCounter);
  visitor.value({{"result", "acknowledged"}}, static_cast<double>(counters.puts_acknowledged()));
  visitor.value({{"result", "failed"}}, static_cast<double>(counters.puts_failed()));
  visitor.counter("farpage_client_gpu_checked_pages_total",
                  "Pages that a GPU has checked where their copy had brought them",
                  static_cast<double>(counters.copies_checked()));
  visitor.counter("farpage_client_gpu_spoiled_pages_total",
                  "Pages whose copy to a GPU had brought other bytes",
                  static_cast<double>(counters.copies_spoiled()));
  visitor.family("farpage_client_gpu_landed_pages_total",
                 "Pages for a GPU, by the memory in which they landed first", MetricKind::kCounter);
  for (const LandingPlace place : kLandingPlaces) {
    visitor.value({{"landing", landing_name(place)}}, static_cast<double>(counters.landed(place)));
  }
  visitor.gauge("farpage_client_location_cache_bytes", "Memory of the client's page table",
                static_cast<double>(location_bytes()));
  visitor.gauge("farpage_client_epoch", "The epoch whose members the client uses; 0: none",
                static_cast<double>(epoch()));
  visitor.gauge("farpage_client_reachable",
                "1 while the client holds a lease of a node, or rests; else 0",
                reachable() ? 1 : 0);
  visitor.counter("farpage_client_held_leases_total",
                  "Leases ended because this machine was held, or its wall clock set ahead",
                  static_cast<double>(counters.held_leases()));
  visitor.counter("farpage_client_link_rests_total", "Links that rest, as nobody used them",
                  static_cast<double>(counters.rests()));
  describe_nodes(*fleet_, clock().now_ns(), visitor);
  describe_paths(paths(), visitor);
}

}  // namespace farpage
