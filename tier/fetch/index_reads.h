#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "integrity/page_key.h"
#include "tier/fetch/index_question.h"
#include "tier/fetch/operation_tag.h"

namespace farpage {

struct LanePeer;

// The lane's state of one question; recycled.
struct QuestionState {
  std::span<const PageKey> keys;
  std::span<KeyAnswer> answers;
  uint64_t until_ns = 0;      // what has no answer then stays unknown
  uint64_t fleet_number = 0;  // as of its begin: another epoch's reads are no answer
  size_t next = 0;            // the first key that has not been asked for
  size_t under_way = 0;       // keys whose buckets are being read

  bool done() const { return next == keys.size() && under_way == 0; }
};

// One key's buckets on their way from its primary, in one operation where they lie side by side,
// otherwise in two.
struct IndexRead {
  QuestionState* question = nullptr;  // null: nobody waits for it any more
  LanePeer* peer = nullptr;           // null: free
  size_t key = 0;                     // among the question's
  uint64_t posted_ns = 0;
  uint32_t step = 0;        // the number that its operations carry
  uint8_t operations = 0;   // how many it has
  uint8_t outstanding = 0;  // a bit for each that has not ended
  bool broken = false;      // an operation did not end well
};

// The questions of a lane, and the places that their reads land in, one a key. A place is free
// again only when all operations that may write to it have ended, though its question has gone
// before (protocol rule 4). Without any input or output of its own.
class IndexReads {
 public:
  static constexpr uint16_t kPlaces = 1024;
  static constexpr size_t kQuestions = 16;  // at one time, without more memory

  IndexReads();

  QuestionState* begin(std::span<const PageKey> keys, std::span<KeyAnswer> answers,
                       uint64_t until_ns, uint64_t fleet_number);
  // Its caller has gone.
  void recycle(QuestionState* question);
  // What it has not been answered stays unknown.
  void give_up(QuestionState& question);
  // Those that are not done, in the order of their begin.
  std::span<QuestionState* const> questions() const { return active_; }
  // One of those: each gets room for a key after the other, so that a short one does not wait for a
  // long one.
  QuestionState& next_in_turn() { return *active_[turn_++ % active_.size()]; }
  void drop_done();

  // Something of a question is under way, or is to be.
  bool any() const { return !active_.empty() || under_way() > 0; }
  size_t under_way() const { return kPlaces - free_.size(); }
  size_t free_places() const { return free_.size(); }
  std::span<const IndexRead> all() const { return reads_; }
  const IndexRead& at(uint16_t place) const { return reads_[place]; }

  // The question's next key is asked for. The place that its buckets land in.
  uint16_t take(QuestionState& question, LanePeer& peer, uint8_t operations, uint64_t now_ns,
                uint32_t step);
  // False: it has ended before.
  bool operation_ended(uint16_t place, const OperationTag& tag, bool is_good);
  // The peer's channel is gone, so that nothing of it can land any more.
  void operations_ended(const LanePeer& peer);
  // Those that have ended and are not free.
  std::span<const uint16_t> ended() const { return ended_; }
  // Their answers have been taken.
  void free_ended();

 private:
  std::vector<IndexRead> reads_;
  std::vector<uint16_t> free_;
  std::vector<uint16_t> ended_;
  std::vector<std::unique_ptr<QuestionState>> questions_;
  std::vector<QuestionState*> unused_;
  std::vector<QuestionState*> active_;
  size_t turn_ = 0;  // among them
};

}  // namespace farpage
