#include "replay/traces/request_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace farpage {
namespace {

class StoredRequests final : public RequestStream {
 public:
  explicit StoredRequests(std::shared_ptr<const StoredTrace> trace) : trace_(std::move(trace)) {}

  Result<std::optional<TraceRequest>> next() override {
    if (next_ == trace_->order.size()) return std::nullopt;
    return trace_->requests.get(trace_->order[next_++]);
  }
  bool has_sessions() const override { return true; }
  std::optional<uint64_t> block_tokens() const override { return trace_->block_tokens; }

 private:
  std::shared_ptr<const StoredTrace> trace_;
  size_t next_ = 0;
};

}  // namespace

std::vector<uint64_t> RequestStore::ids_of(size_t number) const {
  const Kept* kept = &kept_[number];
  size_t missing = kept->shared + kept->request.hash_ids.size();
  std::vector<uint64_t> ids(missing);
  while (missing > 0) {
    const auto& fresh = kept->request.hash_ids;
    std::copy_n(fresh.begin(), missing - kept->shared,
                ids.begin() + static_cast<ptrdiff_t>(kept->shared));
    missing = kept->shared;
    kept = &kept_[kept->before];
    // Of those that it shares itself, another one tells.
    while (missing > 0 && kept->shared >= missing) kept = &kept_[kept->before];
  }
  return ids;
}

size_t RequestStore::add(TraceRequest request, std::optional<size_t> like) {
  Kept kept;
  if (like) {
    const std::vector<uint64_t> before = ids_of(*like);
    const auto differs = std::ranges::mismatch(before, request.hash_ids);
    kept.shared = static_cast<size_t>(differs.in1 - before.begin());
    kept.before = *like;
    // So that the way back has a step for each that has something to tell, and no others.
    while (kept.shared > 0 && kept_[kept.before].shared >= kept.shared) {
      kept.before = kept_[kept.before].before;
    }
    request.hash_ids.erase(request.hash_ids.begin(),
                           request.hash_ids.begin() + static_cast<ptrdiff_t>(kept.shared));
  }
  request.hash_ids.shrink_to_fit();
  kept.request = std::move(request);
  kept_.push_back(std::move(kept));
  return kept_.size() - 1;
}

TraceRequest RequestStore::get(size_t number) const {
  const TraceRequest& kept = kept_[number].request;
  TraceRequest request;
  request.timestamp_ms = kept.timestamp_ms;
  request.input_length = kept.input_length;
  request.output_length = kept.output_length;
  request.session = kept.session;
  request.turn = kept.turn;
  request.hash_ids = ids_of(number);
  return request;
}

std::vector<uint32_t> RequestStore::by_time() const {
  std::vector<uint32_t> order(kept_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](uint32_t number) { return kept_[number].request.timestamp_ms; });
  return order;
}

std::unique_ptr<RequestStream> stream_of(std::shared_ptr<const StoredTrace> trace) {
  return std::make_unique<StoredRequests>(std::move(trace));
}

}  // namespace farpage
