#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/paths/path_ledger.h"

namespace farpage::verbs {

// One path's queue pair as the initiator uses it: work requests go out in chains, one doorbell
// each, and come back in the order in which they went. Only the last of a chain asks for a
// completion, and each that has been waited for long enough; whatever went before it is done with
// it. One thread at a time; allocates nothing after its constructor.
class SendQueue {
 public:
  static constexpr size_t kMostMerged = 8;  // operations in one work request
  static constexpr size_t kMostSlices = 16;

  // The operations, by the channel's numbers, that one work request serves.
  struct Work {
    std::array<uint16_t, kMostMerged> operations;
    uint8_t count = 0;
  };

  SendQueue(std::unique_ptr<Connection> connection, std::shared_ptr<PathCounters> counters);
  ~SendQueue();

  size_t device() const { return connection_->device; }
  size_t most_slices() const { return slices_; }
  // How many more work requests fit.
  size_t room() const;
  bool idle() const { return posted_ == ended_; }
  uint64_t bytes_under_way() const { return posted_bytes_ - ended_bytes_; }
  // Of work that went well.
  uint64_t bytes_carried() const {
    return counters_->read_bytes.value() + counters_->write_bytes.value();
  }
  // Notes, every now and then, whether anything has ended since the last look. Silence is counted
  // from looks, so that posting and polling ask no clock.
  void look(uint64_t now_ns);
  // The first look that saw what is under way as it is; kNever: nothing is, or no call has looked.
  uint64_t silent_since_ns() const { return idle() ? kNever : silent_since_ns_; }
  // When it was broken off; kNever: it was not.
  uint64_t broken_ns() const { return broken_ns_; }

  // Adds to the chain; there must be room.
  void add(const Work& work, const ibv_send_wr& wanted, std::span<const ibv_sge> slices);
  // One doorbell for the chain. A device that refuses breaks the queue.
  void ring();

  // Collects works that have ended since. `done` hears of each work in order, with IBV_WC_SUCCESS,
  // or, once the queue is broken, with why: the first with its cause, all behind it with
  // IBV_WC_WR_FLUSH_ERR.
  template <typename Done>
  void poll(const Done& done);

  // Every work that is under way ends as flushed, and nothing of it lands any more. Without waiting
  // for the peer.
  void break_off();
  bool broken() const { return broken_ns_ != kNever; }
  // Broken, and all of its work has been told to `done`.
  bool drained() const { return broken() && idle(); }
  // Takes the queue pair from the device, for one that does not flush; all work is told to `done`,
  // and nothing of the queue may be used any more.
  template <typename Done>
  void abandon(const Done& done);

  Connection& connection() { return *connection_; }
  PathCounters& counters() { return *counters_; }

 private:
  static constexpr size_t kChain = 64;
  static constexpr uint64_t kSignalEvery = 32;              // requests
  static constexpr uint64_t kSignalEveryBytes = 256 << 10;  // so that progress can be seen
  static constexpr int kPollBatch = 32;

  struct Posted {
    Work work;
    uint64_t bytes = 0;
    bool is_read = false;
  };
  Posted& posted(uint64_t number) { return ring_[number & (ring_.size() - 1)]; }
  template <typename Done>
  void end_until(uint64_t number, ibv_wc_status status, const Done& done);

  std::unique_ptr<Connection> connection_;
  const std::shared_ptr<PathCounters> counters_;
  const size_t slices_;
  const size_t depth_;
  std::vector<Posted> ring_;  // of ascending numbers; a power of two of them, no fewer than depth_
  uint64_t posted_ = 0;
  uint64_t ended_ = 0;
  uint64_t posted_bytes_ = 0;
  uint64_t ended_bytes_ = 0;
  uint64_t last_signalled_ = 0;
  uint64_t unsignalled_bytes_ = 0;
  uint64_t ended_at_look_ = 0;
  uint64_t silent_since_ns_ = kNever;
  uint64_t refused_from_ = UINT64_MAX;  // never came to the device
  uint64_t broken_ns_ = kNever;

  std::array<ibv_send_wr, kChain> chain_;
  std::array<std::array<ibv_sge, kMostSlices>, kChain> chain_slices_;
  size_t chained_ = 0;
};

template <typename Done>
void SendQueue::end_until(uint64_t number, ibv_wc_status status, const Done& done) {
  for (; ended_ < number; ++ended_) {
    const Posted& ended = posted(ended_);
    ended_bytes_ += ended.bytes;
    if (status == IBV_WC_SUCCESS) {
      (ended.is_read ? counters_->reads : counters_->writes).add();
      (ended.is_read ? counters_->read_bytes : counters_->write_bytes).add(ended.bytes);
    }
    done(ended.work, status);
  }
}

template <typename Done>
void SendQueue::poll(const Done& done) {
  std::array<ibv_wc, kPollBatch> completions;
  int count = 0;
  do {
    count = ::ibv_poll_cq(connection_->completions.get(), kPollBatch, completions.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<size_t>(i)];
      // Those in front of it that asked for no completion went well: what fails is always told.
      end_until(completion.wr_id, IBV_WC_SUCCESS, done);
      if (completion.status != IBV_WC_SUCCESS) break_off();
      end_until(completion.wr_id + 1, completion.status, done);
    }
  } while (count == kPollBatch);
  if (ended_ == refused_from_) end_until(posted_, IBV_WC_WR_FLUSH_ERR, done);
}

template <typename Done>
void SendQueue::abandon(const Done& done) {
  broken_ns_ = 0;
  ::rdma_destroy_qp(connection_->id.get());
  end_until(posted_, IBV_WC_WR_FLUSH_ERR, done);
}

}  // namespace farpage::verbs
