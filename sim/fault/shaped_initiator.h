#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "sim/fault/shaped_link.h"
#include "transport/forwarding_initiator.h"

namespace farpage::fault {

// An initiator over a link that is slower than the one it has: each operation begins when the link
// is free for it, and ends as it does, but no sooner than the link could have carried it.
class ShapedInitiator final : public ForwardingInitiator {
 public:
  ShapedInitiator(std::unique_ptr<Initiator> inner, std::shared_ptr<ShapedLink> link,
                  const Clock& clock, uint32_t max_in_flight);

  size_t room() const override { return free_.size() - written_.size(); }
  Operation& next() override { return written_.emplace_back(); }
  Status post() override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  uint64_t arm() override;
  void close() override;

 private:
  struct Flight {
    uint64_t tag = 0;
    uint64_t due_ns = 0;
  };
  struct Waiting {
    Operation operation;  // as the inner initiator is to know it
    uint64_t begin_ns = 0;
  };
  struct Held {
    Completion completion;
    uint64_t due_ns = 0;
  };

  uint64_t due_ns() const;
  void begin_due(uint64_t now_ns);
  void end(const Operation& changed, Outcome outcome);

  const std::shared_ptr<ShapedLink> link_;
  const Clock& clock_;
  std::vector<Flight> flights_;     // by the tag that the inner initiator knows
  std::vector<uint32_t> free_;      // of these
  std::vector<Operation> written_;  // that the caller writes
  std::deque<Waiting> waiting_;     // for the link
  std::deque<Held> held_;
  bool closed_ = false;
};

}  // namespace farpage::fault
