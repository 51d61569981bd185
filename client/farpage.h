#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/connection.h"
#include "client/open_options.h"
#include "client/runner/ahead_driver.h"
#include "client/runner/completions.h"
#include "client/runner/lane_driver.h"
#include "client/runner/ticket.h"
#include "client/runner/write_runner.h"
#include "client/statistics.h"
#include "tier/client.h"
#include "transport/cuda/driver.h"
#include "transport/cuda/memory/paged_memory.h"

namespace farpage {

class GpuRunners;
class StreamFence;

// A client of memory nodes with threads of its own: any thread submits, nothing it calls blocks,
// and a Ticket tells the end. What a call takes is copied; memory of pages alone is lent, until the
// ticket is released.
//
// Times are relative, in microseconds; a page has its verdict, and a put its result, by then.
// Threading: every member may be called from any thread. The child of a fork has none of the
// threads, and uses none of this: it opens a Farpage of its own.
class Farpage {
 public:
  // Brings up all that the client needs, and blocks until a node has answered, up to
  // client.connect_ms. kInvalid: the options; kUnavailable, kTimeout: no node answers; kDenied:
  // token or certificate.
  static Result<std::unique_ptr<Farpage>> open(const OpenOptions& options);
  // Over another fabric than the nodes': as Connection::open().
  static Result<std::unique_ptr<Farpage>> open_over(const OpenOptions& options,
                                                    const Connection::WrapFabric& wrap);
  // Waits for the operations that are under way, then takes everything down. Regions of its memory
  // have to go before, and its tickets may go later.
  ~Farpage();

  // Memory of the caller's for pages, which stays mapped and writable as long as the region lives.
  // Costs system calls, so once for all pages in it. kInvalid: some of it is not mapped, or may not
  // be written. Memory that is only put from may be client().register_memory()'s.
  Result<Region> register_memory(std::span<std::byte> memory);

  // Memory of a GPU for pages, by the device's address: allocated, or mapped piece by piece, under
  // the device's primary context. It stays so as long as the region lives. The first of each GPU
  // makes a thread and takes pinned host memory, through which its pages are copied:
  // gpu.bounce_bytes for fetches, a fourth of that for puts, and some of its checks' own
  // (docs/gpu.md). kNotFound, kUnavailable: no driver, an old one, or no GPU; kInvalid: not memory
  // of one GPU; kExhausted: no memory to pin, or no lane left. Any current context stays as it is.
  Result<Region> register_gpu_memory(uint64_t address, uint64_t bytes);

  // Blocks of an engine's paged memory on a GPU, which lie there in pieces. The region's addresses
  // are names: nothing lies at them. A page is one block, slice(block * block_bytes, block_bytes)
  // of the region, and all pages of a fetch or put are of one such region. The GPU checks a page
  // and then writes it to its block, for which each region takes memory of the GPU: sixteen times
  // 256 KiB, or a block where that is longer. CUDA may make this call, and the region's end, wait
  // for kernels that run: neither while a stream waits at a fence. Nothing else under way may use
  // the same memory by another region. Errors as register_gpu_memory(); kInvalid also: pieces that
  // overlap, blocks that are longer than the nodes' pages.
  Result<Region> register_gpu_blocks(const cuda::GpuBlocks& blocks);

  // What streams of a GPU wait at for a fetch of at most so many pages, and where its kernels see
  // which are ready: for Notification::fence. One fetch at a time has it. Once the client is gone
  // it says that no page is ready. kNotFound, kUnavailable, kExhausted: as register_gpu_memory();
  // kInvalid: most_pages.
  Result<std::shared_ptr<StreamFence>> make_fence(int device, uint32_t most_pages);

  // Fetches pages into registered memory, of the host or of one GPU. Work on the GPU may use a page
  // once it is `ready`, and nothing there may still use its destination when the fetch begins.
  // Pages fetched ahead serve fetches into host memory alone. kExhausted: as many tickets are about
  // as client.queue_depth and client.lanes allow, done or not: let go of one that is done.
  // kInvalid: two pages would land in the same bytes, or in different memories; hedges, which are
  // for those who drive a lane; the fence. After any of these a fence that was given says that no
  // page is ready, unless another fetch has it.
  Result<Ticket> fetch(std::span<const PageRequest> requests, uint64_t timeout_us,
                       const FetchOptions& options = {}, const Notification& notification = {});
  // Stores pages from registered memory, of the host or of one GPU. One thread writes them to the
  // nodes, in the order of the calls: a put to a node that hangs costs those behind it their time
  // (kTimeout). Pages of a GPU's memory are copied to the host's first, within the same time, and
  // come in no order with others; the caller's work on the GPU that writes them has ended before
  // the call, and none writes them until the ticket is released, which waits for copies that are
  // late. kExhausted: as fetch(). kInvalid: memory of several kinds or GPUs; a fence.
  Result<Ticket> put(std::span<const PutRequest> requests, uint64_t timeout_us,
                     const Notification& notification = {});
  // The same of a GPU's memory, behind the work that is on a stream of it now (null: its default
  // one), and that must end within the same time. kInvalid: memory of the host; the stream is being
  // captured. kUnavailable: the driver refuses it.
  Result<Ticket> put_behind(cuda::Stream stream, std::span<const PutRequest> requests,
                            uint64_t timeout_us, const Notification& notification = {});
  Result<Ticket> remove(std::span<const PageKey> keys, uint64_t timeout_us,
                        const Notification& notification = {});

  // Blocks until every put and remove that was submitted before has its result. kTimeout: one has
  // none by then. kExhausted: as put().
  Result<void> flush(uint64_t timeout_us);

  // Which of the keys have a page now: those with the verdict `ready`. A hint: a page may go the
  // next moment. The nodes' index answers, read in place where this process has it mapped, and in
  // one round trip elsewhere: then a verdict has no version, and one answer in a million is wrong.
  // A fetch without destinations answers what that leaves open.
  Result<Ticket> exists(std::span<const PageKey> keys, uint64_t timeout_us,
                        const Notification& notification = {});
  // How many of the first keys have a page, by exists(). Blocks.
  Result<uint64_t> leading(std::span<const PageKey> keys, uint64_t timeout_us);

  // What an engine knows of its pages before it fetches them, for a client with ahead.pages: the
  // pages lie in its memory when they are fetched, and a fetch copies them from there. In the order
  // of the calls, also with fetches; nothing tells of their end. kExhausted: as fetch(). kInvalid:
  // ahead.pages is 0.
  //
  // They will be wanted by then, and are fetched as soon as there is room. Such a page stays until
  // it is fetched, withdrawn as often as announced, or ahead.linger_ms older than that time.
  Result<void> announce(std::span<const PageKey> keys, uint64_t wanted_in_us);
  Result<void> withdraw(std::span<const PageKey> keys);
  // Pages that are worth coming back to, for ahead.prefetcher.
  Result<void> mark_milestones(std::span<const PageKey> keys);
  // What was accessed in a step, near or not, for ahead.prefetcher, which then has its pages
  // fetched.
  Result<void> observe(std::span<const ObservedAccess> accesses);

  Statistics statistics() const;

  uint64_t page_bytes() const;  // the longest page that the nodes take
  // For those who drive lanes on threads of their own, and for its counts (describe()).
  Client& client() { return connection_->client(); }
  const Clock& clock() const { return connection_->runtime().clock(); }

 private:
  Farpage() = default;
  static Result<std::unique_ptr<Farpage>> open_moving(const OpenOptions& options,
                                                      const Connection::WrapFabric& wrap);
  static Result<std::unique_ptr<Farpage>> open_valid(const OpenOptions& options,
                                                     const Connection::WrapFabric& wrap);
  LaneRunner& least_busy();
  Result<Ticket> begin_fetch(std::span<const PageRequest> requests, uint64_t timeout_us,
                             const FetchOptions& options, const Notification& notification);
  template <typename Fill>
  Result<Ticket> read(SubmissionKind kind, uint64_t timeout_us, const Notification& notification,
                      const Fill& fill);
  template <typename Fill>
  Result<Ticket> move_on_gpu(SubmissionKind kind, MemoryPlace place, uint64_t timeout_us,
                             const Notification& notification, const Fill& fill);
  Result<Ticket> begin_put(std::span<const PutRequest> requests, const cuda::Stream* stream,
                           uint64_t timeout_us, const Notification& notification);
  template <typename Fill>
  Result<void> hint(SubmissionKind kind, uint64_t until_ns, const Fill& fill);
  template <typename Fill>
  Result<Ticket> write(SubmissionKind kind, uint64_t timeout_us, const Notification& notification,
                       const Fill& fill);

  // Those that were made. No thread of the client decides one any more when this goes.
  struct Fences {
    ~Fences();
    std::mutex mutex;
    std::vector<std::weak_ptr<StreamFence>> made;
  };

  Fences fences_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<WriteRunner> writes_;
  std::vector<std::unique_ptr<LaneRunner>> lanes_;
  std::unique_ptr<AheadRunner> ahead_;  // of all fetches into host memory, or null
  std::unique_ptr<GpuRunners> gpus_;
  uint64_t linger_us_ = 0;
  std::atomic<uint32_t> last_lane_{0};
};

}  // namespace farpage
