#pragma once

#include <cstdint>

namespace farpage {

class LaneEngine;
struct QuestionState;

// What the index of a key's primary says: a hint, for one entry in a million leads to another page,
// and a page may go the next moment. A fetch decides.
enum class KeyAnswer : uint8_t {
  kUnknown,  // it was not asked in time, or another replica may have what the primary has not
  kAbsent,
  kShown,
};

// A batch of keys that are looked up in the indexes of their primaries by one-sided reads of their
// buckets, and nothing else: no node is told, no header is read. Move-only. A default-constructed
// one is done.
//
// The keys and the answers are lent to it until it goes, which it may at any time: its reads land
// in memory of the lane's. It must not outlive its lane, and shares its thread.
class IndexQuestion {
 public:
  IndexQuestion() = default;
  IndexQuestion(IndexQuestion&& other) noexcept;
  IndexQuestion& operator=(IndexQuestion&& other) noexcept;
  ~IndexQuestion();

  // Every key has its answer, or will stay unknown.
  bool done() const;
  // Drives the lane until it is done; that is by its deadline.
  void wait();

 private:
  friend class Lane;
  IndexQuestion(LaneEngine* engine, QuestionState* state) : engine_(engine), state_(state) {}

  LaneEngine* engine_ = nullptr;
  QuestionState* state_ = nullptr;
};

}  // namespace farpage
