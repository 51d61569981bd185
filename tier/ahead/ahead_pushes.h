#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tier/ahead/prefetch_transport.h"
#include "tier/push/push.h"

namespace farpage {

// Pages that begin at one time are one request, and the node writes them into the lane's landing,
// group after group (PushLane). As a push, a request allocates its message.
class AheadPushes final : public PrefetchTransport {
 public:
  // `lane`: with as many places.
  AheadPushes(PushLane lane, uint32_t places, uint32_t most_under_way);

  size_t places() const override { return places_.size(); }
  size_t taken() const override { return places_.size() - free_.size(); }

  std::optional<uint32_t> begin(const PageKey& key, uint64_t bytes, uint64_t deadline_ns) override;
  void send() override;
  void progress() override { lane_.progress(); }
  bool has_moved_on() override;
  std::optional<Ended> next() override;
  void give_back(uint32_t place) override;

  void wait(uint64_t until_ns) override;
  LaneStats stats() const override;

 private:
  struct Page {
    uint32_t place = 0;
    bool is_told = false;
  };
  struct Request {
    std::vector<PushedPage> asked;
    std::vector<PageVerdict> verdicts;
    std::vector<Page> pages;
    uint64_t deadline_ns = 0;
    size_t untold = 0;
    Push push;
  };

  std::unique_ptr<Request> unused();

  PushLane lane_;
  std::vector<std::optional<PageLease>> places_;  // what is here
  std::vector<uint32_t> free_;
  const uint32_t most_under_way_;
  uint64_t landings_ended_ = 0;  // as last told
  std::vector<std::unique_ptr<Request>> recycled_;
  std::unique_ptr<Request> begun_;              // and not sent
  std::vector<std::unique_ptr<Request>> sent_;  // until all of them are told
};

}  // namespace farpage
