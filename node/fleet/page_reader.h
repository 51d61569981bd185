#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/log.h"
#include "control/messages.h"
#include "node/store/page_store.h"
#include "tier/link/read_path.h"
#include "transport/fabric.h"

namespace farpage {

// A node's own pool as the place where pages of other nodes land. It is registered once more for
// that, as memory of this process.
struct PoolLanding {
  static Result<PoolLanding> create(Fabric& fabric, PageStore& store);

  PageStore* store = nullptr;
  Region pool;
};

// Reads pages out of one other node's pool into taken slots of our own: the payload to its place,
// the header beside the pool, for the page gets a header of our own. The memory for headers comes
// with the first read: of the other members of a large fleet, most are read from much later. On the
// runtime's thread; nothing blocks.
class PageReader {
 public:
  struct Landed {
    uint32_t crc = 0;  // of the payload, as it lies in our slot
    uint32_t name_space = 0;
  };
  // kOk: the slot holds, whole, the page that was named. kNotFound: the other node has it no more.
  // kAborted: what landed is wrong. kUnavailable, kTimeout: for three seconds it was not reached,
  // or too slow, or the system granted no memory to lock. kInvalid: there can be no such page.
  using Done = std::function<void(Code, const Landed&)>;

  // `fabric` and `landing` outlive it.
  PageReader(std::shared_ptr<NodeSession> link, Runtime& runtime, Fabric& fabric,
             PoolLanding& landing);
  // Reads under way call nothing back. Waits until nothing lands in the pool any more: a later run
  // may take the same memory (PoolHandoff).
  ~PageReader();

  // `done` runs once, later, when nothing writes into the slot any more.
  void read(const HeldPage& page, uint32_t slot, Done done);
  // Ends what is under way and what waits, as kUnavailable; nothing is read after this.
  void end();
  size_t waiting() const { return queue_.size() + path_.in_flight(); }
  // Nothing waits, and the path's channels are gone: the destructor waits for nothing.
  bool at_rest() const { return waiting() == 0 && path_.at_rest(); }

  // Goes on with opening and ending the path. True: it is open.
  bool advance() { return path_.advance(runtime_.clock().now_ns()); }

 private:
  struct Read {
    HeldPage page;
    uint32_t slot = 0;
    uint64_t give_up_ns = 0;
    Done done;
  };
  struct Place {  // of a header that lands
    Read read;
    uint64_t posted_ns = 0;   // the first of its operations
    uint64_t first_tag = 0;   // of as many as the page takes, one after the other
    uint8_t outstanding = 0;  // a bit for each that has not ended; none: the place is free
    bool failed = false;
  };
  static constexpr size_t kPlaces = 64;
  using Headers = std::array<PageHeader, kPlaces>;

  void pump();
  void pump_in(uint64_t delay_ns);
  bool prepare(uint64_t now_ns);
  void begin_reads(uint64_t now_ns);
  void write_operations(const Read& read, size_t place);
  Operation& write_operation(const RemoteRegion& remote, uint64_t offset);
  void poll();
  void operation_ended(const Completion& completion, uint64_t now_ns);
  void end_reads();
  void read_ended(Read read, Code code, const Landed& landed);
  Code judge(const Place& place, const PageHeader& found, uint64_t now_ns, Landed& landed) const;

  Runtime& runtime_;
  Fabric& fabric_;
  PoolLanding& landing_;
  std::unique_ptr<Headers> headers_;
  Region headers_region_;
  ReadPath path_;              // after the memory that it lands in
  std::vector<Place> places_;  // empty: nothing was read yet
  uint64_t prepare_at_ns_ = 0;
  std::deque<Read> queue_;
  uint64_t last_tag_ = 0;
  uint64_t reuse_ns_ = 0;  // `read_window` of the node that is read
  bool pumping_ = false;
  bool ended_ = false;
  WarningLimiter warnings_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by timers that look at it
};

}  // namespace farpage
