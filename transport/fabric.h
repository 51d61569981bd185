#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "transport/memory.h"
#include "transport/operation.h"

namespace farpage {

struct Capabilities {
  std::string_view backend;  // "shm"
  std::string_view path;     // how bytes travel, for people: "shared memory, mapped read-only"
  bool one_sided = true;     // the peer's CPU does nothing for a read
  bool protects_regions =
      true;  // kRemoteRead and kRemoteWrite are enforced, not just asked for (I6)
  bool checksums_landing = false;  // fills Completion::crc where Operation::wants_crc
  // A node can take up a client's offer, and write from its own readable regions: it can push.
  bool pushes = false;
  // register_local() takes memory of a device, for a host whose drivers can do that: reads land
  // there, and writes come from there.
  bool reaches_devices = false;
  uint32_t max_in_flight = 0;  // operations of one initiator that have not been polled
};

// Reads and writes have channels of their own, so that a backend can give each its own protection
// domain.
enum class ChannelPurpose : uint8_t {
  kRead,   // the initiator reads the target's kRemoteRead regions
  kStage,  // the initiator writes regions that the target allocated for this channel
};

// A channel is one connection with two ends: the initiator moves bytes, the target owns the memory
// that is read or written. Different channels share no lock.

// The end that reads and writes its peer's memory. One thread at a time. next, post, poll and wait
// allocate nothing and register nothing.
class Initiator {
 public:
  // Ends every operation in flight, and returns once none of them touches memory of this process
  // any more (I4): it may block for as long as a device takes to flush. Completions that have not
  // been polled are lost. In any thread, if no other one uses the initiator.
  virtual ~Initiator() = default;

  // Makes a region of the target's process reachable over this channel. Checks every field of
  // `region`, and that it is what `use` needs. Every operation must keep to that use: no one checks
  // it again on the way.
  virtual Result<RemoteRegion> import_region(RegionExport region, const RegionUse& use) = 0;

  // How many operations may be written now; max_in_flight while none is under way.
  virtual size_t room() const = 0;
  // The next operation, to be written where it stands: in the initiator's own queue. The caller
  // writes every field that its kind and local_count name, for old values are still there. Only
  // where there is room. Valid until the next call of any function.
  virtual Operation& next() = 0;
  // Starts what has been written, in order. Each operation ends with exactly one completion.
  // kUnavailable: the channel is broken, and those that have just been written end as aborted.
  virtual Status post() = 0;

  // Fills `completions` with what has ended, and returns how many. Never blocks. Reads may end in
  // another order than they were posted in. After one that has failed the channel may be of no more
  // use: then everything behind it ends as aborted, and post() says kUnavailable. One that was
  // refused costs no other one anything.
  virtual size_t poll(std::span<Completion> completions) = 0;

  // Returns when poll() may have something, or at the deadline, or earlier.
  virtual void wait(uint64_t deadline_ns) = 0;

  // Descriptor for a caller's own event loop in place of wait(): readable once poll() may have
  // something, if arm() was called since the last poll(). The initiator's, which alone reads it;
  // asked for anew before each wait. -1: there is none, as where poll() itself moves the bytes, or
  // in virtual time.
  virtual int descriptor() const { return -1; }
  // Returns until when the descriptor can be relied on: poll() is due then all the same. kNever: as
  // long as it takes; 0: poll() may have something now. Allocates nothing, never blocks.
  virtual uint64_t arm() { return 0; }
  // How long after a post the caller had better poll before it sleeps, as wait() does: what is
  // under way may be here before a sleeping thread could be woken.
  virtual uint64_t spin_ns() const { return 0; }

  // Ends every operation in flight as aborted and refuses new ones. poll() stays valid until all
  // have been polled. I4: once a read's completion has been polled, no operation writes its landing
  // place. A write that has left this host may still reach the target's memory until the target has
  // closed; after that nothing does.
  virtual void close() = 0;
};

// The end that owns the memory. Exactly one peer connects to it. One thread at a time. poll and
// wait allocate nothing and register nothing.
class Target {
 public:
  // As close(); immediates that have not been polled are lost. In any thread, if no other one uses
  // the target.
  virtual ~Target() = default;

  // Zeroed memory of `bytes` bytes that only the peer may write; of a stage channel. The region may
  // outlive the target.
  virtual Result<Region> allocate_writable(uint64_t bytes) = 0;

  // Fills `immediates` with those that have come, in the order in which the peer posted them, and
  // returns how many. Each comes once everything that was posted before it is there. Never blocks.
  virtual size_t poll(std::span<uint32_t> immediates) = 0;

  // Returns when poll() may have something, or at the deadline, or earlier.
  virtual void wait(uint64_t deadline_ns) = 0;

  // Ends the connection, which may block for as long as a device takes to flush. Where the backend
  // protects regions, nothing that the peer posts reaches memory of this process through it
  // afterwards (I4): it fails at the peer. Only a copy that a peer on this host is in the middle of
  // may still end.
  virtual void close() = 0;
};

// Which node it is. A name may stand for several: once one of them has answered, everything goes to
// that one. Both are empty where a Unix socket leads to it.
struct Peer {
  std::string address;  // tcp://IP:PORT, in numbers
  std::string name;     // as the user named the host, and as a certificate must
};

// The offer that an initiator needs to connect; travels on the control plane. Untrusted where it
// arrives.
struct ChannelOffer {
  ChannelPurpose purpose = ChannelPurpose::kRead;
  std::string opaque;
  UniqueFd fd;
  // Where the control connection leads; filled in where an offer arrives, and never sent.
  Peer peer = {};
};

struct OfferedTarget {
  std::unique_ptr<Target> target;
  ChannelOffer offer;
};

// One device's domain: memory and connections. Thread-safe; nothing here is called on the way of a
// fetch. Outlives its channels' ends and regions, or is kept alive by them.
class Fabric {
 public:
  virtual ~Fabric() = default;

  virtual const Capabilities& capabilities() const = 0;

  // Memory that every connected peer may read and none may write, present before the call returns.
  // Where the backend pushes, its slices are sources of writes too.
  virtual Result<Region> allocate_readable(uint64_t bytes) = 0;

  // The caller's own memory, as a landing place or a source. It must outlive the region.
  virtual Result<Region> register_local(const MemoryRange& range) = 0;

  // For a region of allocate_readable or Target::allocate_writable.
  virtual Result<RegionExport> export_region(const Region& region) = 0;

  // A new channel's target, and the offer that exactly one peer takes up.
  virtual Result<OfferedTarget> offer_channel(ChannelPurpose purpose) = 0;
  // Takes up a peer's offer. Blocks until the peer has answered, at most until the deadline.
  virtual Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) = 0;
};

// Of an initiator that can read its peer's memory in place. Optional: ask for it with
// dynamic_cast<DirectMemory*>.
class DirectMemory {
 public:
  virtual ~DirectMemory() = default;
  virtual std::span<const std::byte> view(const RemoteRegion& region) const = 0;
};

}  // namespace farpage
