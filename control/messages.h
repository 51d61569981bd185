#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/status/status.h"
#include "integrity/page_header.h"
#include "transport/fabric.h"

namespace farpage {

// What client and node say to each other, as plain values: docs/formats/control.md. No page travels
// here. Everything in a received message is the peer's word; whoever uses a field checks it. A new
// field is a member here and a field of the same name in farpage_control.proto, and nothing else; a
// new list needs a line in message_limits.h too.
// 2: replicas and removes have a patience; of a peer that names none, all would be late.
// 3: a client's touch log is the end of its staging, and no lane has one.
// 4: a node's headers may lie in a region of their own; whoever does not know that would take
// payloads for headers.
// 5: another rule says where keys lie (kPlacementVersion, pagetable/epoch.h).
inline constexpr uint32_t kControlProtocol = 5;

inline constexpr uint32_t kMaxCommitPages = 1024;
inline constexpr uint32_t kMaxRemoveKeys = 4096;
// Memory of one client that a node reads in place.
inline constexpr uint32_t kMaxSources = 16;
inline constexpr uint32_t kMaxPushPages = 1024;
inline constexpr uint32_t kMaxPushGroups = 256;
inline constexpr uint32_t kMaxTrafficPaths = 256;
inline constexpr uint32_t kMaxReplicaPages = 1024;
// Of a put and its replicas; a request for more gets this many.
inline constexpr uint64_t kMaxPatienceNs = 60 * kSecond;
inline constexpr uint32_t kMaxFleetMembers = 1024;
inline constexpr uint32_t kMaxTenants = 64;
// Of a hello. A status has those of kMaxNameSpaces, within a frame.
inline constexpr size_t kMaxFactsBytes = 16 << 10;

// The sender's epoch (protocol rule 10): pagetable/epoch.h. A receiver in another epoch refuses the
// message with kOtherEpoch and its own. Both are 0 where a node serves alone.
struct EpochTag {
  uint64_t number = 0;
  uint64_t identity = 0;

  friend bool operator==(const EpochTag&, const EpochTag&) = default;
};

struct HelloRequest {
  uint32_t protocol = kControlProtocol;
  uint32_t page_format = kPageFormat;
  uint64_t staging_bytes = 0;  // for puts; a client's touch log comes on top
  uint64_t node = 0;           // which of the members says hello; 0: it is a client
  uint64_t incarnation = 0;    // that member's
  EpochTag epoch = {};
  // The run of this node that the client knew last, where no register says the epochs; 0: none.
  uint64_t known_epoch = 0;
  uint64_t known_incarnation = 0;
  // What the client's pages depend on, in lines NAME=VALUE; empty: it names
  // nothing.
  std::string facts = {};
};

struct HelloReply {
  uint32_t protocol = kControlProtocol;
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  uint64_t reuse_ns = 0;  // `read_window`: a reader uses no page that takes longer
  uint64_t lease_ns = 0;  // `view_lease`: a client may read for so long after it sent a renewal
  uint64_t page_bytes = 0;
  uint64_t slots = 0;
  uint64_t buckets = 0;
  ChannelOffer staging_offer;  // none for a member that asks for no staging
  RegionExport staging;        // ends in the touch log: pagetable/touch_log.h
  std::string backend;         // how pages travel; empty: the node does not say
  uint64_t node = 0;           // which member this is; 0: it serves alone
  EpochTag membership = {};
  uint64_t newest_epoch = 0;  // of the pages that it ever stored or took over; 0: none
  uint32_t slot_layout = 0;   // of pagetable/geometry.h
  // How much memory of this client the node would read in place: kMaxSources, or none.
  uint32_t sources = 0;
};

// A data path of its own for one thread of the client.
struct OpenLaneRequest {
  uint64_t replaces = 0;  // a lane that the client has given up; 0: none
};

struct OpenLaneReply {
  uint64_t lane = 0;
  ChannelOffer read_offer;
  RegionExport pool;
  RegionExport index;
  std::optional<RegionExport> headers = {};  // where they do not lie in the pool
};

// Memory of the client, out of which the node takes the pages of puts that name it; or its end.
struct SourceRequest {
  uint32_t source = 0;                      // its number, which the client gives it; not 0
  std::optional<RegionExport> memory = {};  // nothing: the node forgets it
};

struct SourceReply {};

// Memory of the client, for the node to write pages into: places of one slot each, one after the
// other.
struct OpenPushRequest {
  uint64_t replaces = 0;  // a push lane that the client has given up; 0: none
  ChannelOffer offer;     // of a stage channel
  RegionExport landing;   // that the channel's peer may write
};

struct OpenPushReply {
  uint64_t lane = 0;
};

struct PushPage {
  PageKey key;
  uint32_t place = 0;  // of the landing
};

// The pages go out in groups of `group_pages`, the last of which may be shorter. Behind each group,
// also one of which no page was there, comes its group_immediate(`immediate`, group).
struct PushRequest {
  uint64_t lane = 0;
  uint32_t immediate = 0;
  uint32_t group_pages = 1;
  uint64_t patience_ns = 0;  // what has not gone out by then is left out
  std::vector<PushPage> pages;
};

// Does not wait for the pages to go out.
struct PushReply {
  std::vector<Code>
      codes;  // one a page, in order. kOk: it will be written. kNotFound: no such page
};

constexpr size_t push_groups(size_t pages, size_t group_pages) {
  return (pages + group_pages - 1) / group_pages;
}

struct CommitPage {
  PageKey key;
  uint64_t staging_offset = 0;  // or in the source
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  uint32_t source = 0;  // in which it lies; 0: in the staging
};

// Those pages that lie in the client's staging are there once `immediate` has arrived.
struct CommitRequest {
  uint32_t immediate = 0;
  uint64_t patience_ns = 0;  // how long the node may wait for slots and for puts to open
  std::vector<CommitPage> pages;
  EpochTag epoch = {};
};

struct CommitResult {
  Code code = Code::kOk;
  Version version = 0;  // with kOk
};

struct CommitReply {
  std::vector<CommitResult> results;  // one a page, in order
  std::string why = {};               // of one that a member held up: a sentence for people
};

struct RemoveRequest {
  std::vector<PageKey> keys;
  EpochTag epoch = {};
  uint64_t patience_ns = 0;  // how long the node may wait for puts to open and for replicas
};

struct RemoveReply {
  uint64_t removed = 0;
};

struct RenewRequest {
  uint64_t incarnation = 0;
  VerdictCounts verdicts = {};  // since the hello, and what the connection before it did not tell
};

struct RenewReply {
  uint64_t incarnation = 0;
  // The node's own view of its fleet's epoch; number 0: it has none, or no register.
  EpochTag epoch = {};
  uint64_t view_age_ns = 0;  // since the node sent the read that this view comes from
};

// A page that a member holds, for another one to read: where it lies in the pool of who says so.
struct HeldPage {
  PageKey key;
  Version version = 0;
  uint64_t slot = 0;
  uint32_t payload_bytes = 0;
  // Its live word is gone since this epoch began, in which its holder is no replica of it any more:
  // to fill others with, and for nothing else (protocol rule 8).
  bool dead = false;
};

// From a key's primary: take this page over, by reading it, or forget the key. In the order of the
// requests on one connection.
struct ReplicaPage {
  HeldPage page;
  bool removed = false;  // by the primary, which has nothing to read any more
};

struct ReplicateRequest {
  EpochTag epoch;
  std::vector<ReplicaPage> pages;
  uint64_t patience_ns = 0;  // what has not begun by then is left out
};

// Answered when all are applied or refused, in the order of the requests.
struct ReplicateReply {
  std::vector<Code> codes;  // one a page, in order. kOk: this version or a newer one is applied
};

// Asks which of these keys the member holds; or, without keys, which of all that belong to the
// asker, from `cursor` on.
struct HoldingsRequest {
  EpochTag epoch;
  std::vector<PageKey> keys = {};
  uint64_t cursor = 0;
  // The epoch before this one, if the asker had all that it held there, and has entered this one
  // next: it is told only of what it did not hold there. 0: of all.
  uint64_t since = 0;
};

struct HoldingsReply {
  std::vector<HeldPage> pages;
  uint64_t next = 0;  // the cursor to go on with, above the one before; 0: that is all
  // The member still looks at its pages, and has told all that it has found: ask again later.
  bool looking = false;
};

// From a client: what I read of these pages was wrong. The node looks at its own slots, and at
// nothing else that the client says (protocol rule 16).
struct ReportRequest {
  std::vector<PageKey> keys;
};

struct ReportReply {
  uint64_t dropped = 0;
  uint64_t newest_epoch = 0;  // as in the hello's reply, now
};

// From a client of a fleet with a register: the epoch that the node is in.
struct EpochRequest {
  // The node answers once it is in another epoch than this, with the view and its age alone. One
  // such question of each client waits. Number 0: the node answers at once, with all of the epoch.
  EpochTag known = {};
};

struct EpochMember {
  uint64_t node = 0;
  uint64_t incarnation = 0;
  bool leaving = false;
  uint32_t slot = 0;
  std::string address = {};  // where it was last known to be; empty: the node does not know
};

struct EpochReply {
  EpochTag view = {};  // as in the reply to a renewal, and its age; number 0: nothing else is told
  uint64_t view_age_ns = 0;
  uint64_t replicas = 0;
  uint64_t seed = 0;
  uint64_t page_bytes = 0;
  std::vector<EpochMember> members = {};
};

// Evicts the pages of a namespace in some slots, from slot `cursor` on.
struct FlushRequest {
  uint32_t name_space = 0;  // its tag
  uint64_t cursor = 0;
};

struct FlushReply {
  uint64_t evicted = 0;
  uint64_t next = 0;  // the cursor to go on with; 0: that was all
};

struct StatusRequest {};

// Instead of a reply: why not, in a sentence for people.
struct Refusal {
  Code code = Code::kInvalid;
  std::string message;
  EpochTag epoch = {};  // with kOtherEpoch: the one that is refused with
};

using Request =
    std::variant<HelloRequest, OpenLaneRequest, CommitRequest, RemoveRequest, RenewRequest,
                 StatusRequest, OpenPushRequest, PushRequest, ReplicateRequest, HoldingsRequest,
                 ReportRequest, FlushRequest, SourceRequest, EpochRequest>;
using Reply = std::variant<Refusal, HelloReply, OpenLaneReply, CommitReply, RemoveReply, RenewReply,
                           StatusReply, OpenPushReply, PushReply, ReplicateReply, HoldingsReply,
                           ReportReply, FlushReply, SourceReply, EpochReply>;

}  // namespace farpage
