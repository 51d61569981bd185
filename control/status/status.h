#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/traffic.h"

// A node's status. Each number is a figure of status_table.h, unless it names who or what is told
// of.
namespace farpage {

inline constexpr uint32_t kMaxNameSpaces = 32;

// Verdicts of the pages that clients asked for.
struct VerdictCounts {
  uint64_t fetches = 0;
  uint64_t ready = 0;
  uint64_t ready_bytes = 0;
  uint64_t miss = 0;  // and the other reasons to recompute
  uint64_t stale = 0;
  uint64_t corrupt = 0;
  uint64_t stalled = 0;
  uint64_t unreachable = 0;
  uint64_t slower = 0;
};

struct MemberStatus {
  uint64_t node = 0;
  bool reached = false;  // by the node that says so
};

// Of a node that is one of several. Pages, unless it says otherwise.
struct FleetStatus {
  uint64_t node = 0;      // which member it is; 0: it serves alone
  uint64_t replicas = 0;  // of each key
  std::vector<MemberStatus> others = {};
  uint64_t replicated = 0;  // put or removed here, and acknowledged by all others of the key's set
  uint64_t applied = 0;     // put or removed elsewhere
  uint64_t filled = 0;
  uint64_t filled_bytes = 0;
  uint64_t to_fill = 0;               // 0: there is nothing left to fill
  uint64_t repaired = 0;              // among those filled
  uint64_t dropped = 0;               // reported, and found not whole
  uint64_t puts_without_replica = 0;  // refused, for a replica was not reached
};

// Pages that a node has written into its clients' landings.
struct PushCounts {
  uint64_t lanes = 0;    // open now
  uint64_t pages = 0;    // whose write has ended well
  uint64_t bytes = 0;    // of their payloads
  uint64_t missed = 0;   // pages that were not there
  uint64_t late = 0;     // pages left out, for nothing goes out after a request's patience
  uint64_t refused = 0;  // lanes and requests
};

// Pages of its own pool that a node has looked at, unasked.
struct ScrubCounts {
  uint64_t passes = 0;   // over all of it
  uint64_t bytes = 0;    // of payloads
  uint64_t dropped = 0;  // pages that were not whole
  uint64_t entries = 0;  // of the index, as others read it, that were mended
};

// The most memory that all clients together can take at a node, beside its pool.
struct ClientBudgetStatus {
  uint64_t bytes = 0;
  uint64_t granted_bytes = 0;
  uint64_t refused = 0;  // grants
};

// Of a node with tenants: one of them.
struct TenantStatus {
  std::string name;
  uint64_t quota_bytes = 0;
  uint64_t held_bytes = 0;  // slots with a page, each whole
  uint64_t clients = 0;
  uint64_t puts = 0;
  uint64_t put_bytes = 0;
  uint64_t puts_refused = 0;
  uint64_t removes = 0;
  uint64_t evictions = 0;  // of its own pages, for its own puts
  ClientBudgetStatus budget = {};
};

// Pages of one namespace: docs/formats/keys.md.
struct NameSpaceStatus {
  std::string name_space;  // its 32 digits, or the 8 of its tag where no client has told its facts
  std::string facts;       // in lines NAME=VALUE; empty: no client has told them
  uint64_t pages = 0;
  uint64_t held_bytes = 0;  // slots with such a page, each whole
};

struct StatusReply {
  std::string backend;
  std::string path;
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  uint64_t uptime_ns = 0;
  uint64_t cpu_ns = 0;
  uint64_t page_bytes = 0;
  uint64_t slots = 0;
  uint64_t slots_live = 0;
  uint64_t slots_free = 0;
  uint64_t slots_cooling = 0;
  uint64_t clients = 0;
  uint64_t puts = 0;
  uint64_t put_bytes = 0;
  uint64_t puts_refused = 0;
  uint64_t removes = 0;
  uint64_t evictions = 0;
  uint64_t renewals = 0;
  VerdictCounts verdicts = {};  // as the clients tell; also those that have gone
  // False: the peers' reads pass the node by, and `traffic` is empty.
  bool sees_traffic = false;
  std::vector<PathTraffic> traffic = {};
  std::vector<PortTraffic> ports = {};  // by which peers are answered one-sided
  FleetStatus fleet = {};
  PushCounts pushes = {};
  ScrubCounts scrubs = {};
  ClientBudgetStatus budget = {};
  std::vector<TenantStatus> tenants = {};  // to a tenant: itself; to the node's operator: all
  std::vector<NameSpaceStatus> name_spaces = {};  // those with the most pages
  uint64_t sources = 0;                           // memory of clients that is read in place
  uint64_t puts_in_place = 0;                     // puts that came from there
};

}  // namespace farpage
