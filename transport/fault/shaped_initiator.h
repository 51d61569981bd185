#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "transport/fabric.h"
#include "transport/fault/shaped_link.h"

namespace farpage::fault {

// An initiator over a link that is slower than the one it has: each operation begins when the link
// is free for it, and ends as it does, but no sooner than the link could have carried it.
class ShapedInitiator final : public Initiator {
 public:
  ShapedInitiator(std::unique_ptr<Initiator> inner, std::shared_ptr<ShapedLink> link,
                  const Clock& clock, uint32_t max_in_flight);

  Result<RemoteRegion> import_region(RegionExport region) override {
    return inner_->import_region(std::move(region));
  }
  PostResult post(std::span<const Operation> operations, uint64_t deadline_ns) override;
  size_t poll(std::span<Completion> completions) override;
  void wait(uint64_t deadline_ns) override;
  int descriptor() const override { return inner_->descriptor(); }
  uint64_t arm() override;
  uint64_t spin_ns() const override { return inner_->spin_ns(); }
  void close() override;

 private:
  struct Flight {
    uint64_t tag = 0;
    uint64_t due_ns = 0;
  };
  struct Waiting {
    Operation operation;  // as the inner initiator is to know it
    uint64_t begin_ns = 0;
    uint64_t deadline_ns = 0;
  };
  struct Held {
    Completion completion;
    uint64_t due_ns = 0;
  };

  uint64_t due_ns() const;
  void begin_due(uint64_t now_ns);
  void end(const Waiting& waiting, Outcome outcome);

  const std::shared_ptr<ShapedLink> link_;
  const Clock& clock_;
  std::vector<Flight> flights_;  // by the tag that the inner initiator knows
  std::vector<uint32_t> free_;   // of these
  std::deque<Waiting> waiting_;  // for the link
  std::deque<Held> held_;
  bool closed_ = false;
  std::unique_ptr<Initiator> inner_;
};

}  // namespace farpage::fault
