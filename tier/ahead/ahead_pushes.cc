#include "tier/ahead/ahead_pushes.h"

#include <utility>

namespace farpage {

AheadPushes::AheadPushes(PushLane lane, uint32_t places, uint32_t most_under_way)
    : lane_(std::move(lane)), places_(places), most_under_way_(most_under_way) {
  for (uint32_t place = places; place-- > 0;) free_.push_back(place);
  // Each request under way has a page of its own.
  sent_.reserve(most_under_way);
  recycled_.reserve(most_under_way);
  begun_ = unused();
}

std::unique_ptr<AheadPushes::Request> AheadPushes::unused() {
  if (!recycled_.empty()) {
    auto request = std::move(recycled_.back());
    recycled_.pop_back();
    return request;
  }
  auto made = std::make_unique<Request>();
  made->asked.reserve(most_under_way_);
  made->verdicts.reserve(most_under_way_);
  made->pages.reserve(most_under_way_);
  return made;
}

std::optional<uint32_t> AheadPushes::begin(const PageKey& key, uint64_t bytes,
                                           uint64_t deadline_ns) {
  if (free_.empty()) return std::nullopt;
  const uint32_t place = free_.back();
  free_.pop_back();
  begun_->asked.push_back({key, 0, bytes});
  begun_->pages.push_back({place});
  begun_->deadline_ns = deadline_ns;
  return place;
}

void AheadPushes::send() {
  if (begun_->pages.empty()) return;
  Request& request = *begun_;
  request.untold = request.pages.size();
  request.verdicts.assign(request.pages.size(), {});
  request.push = lane_.push(request.asked, request.verdicts, request.deadline_ns);
  sent_.push_back(std::move(begun_));
  begun_ = unused();
}

// A landing that was given up stays as long as any of its places is kept.
bool AheadPushes::has_moved_on() {
  const uint64_t ended = lane_.stats().landings_ended;
  return std::exchange(landings_ended_, ended) != ended;
}

std::optional<PrefetchTransport::Ended> AheadPushes::next() {
  for (auto& sent : sent_) {
    Request& request = *sent;
    for (size_t i = 0; i < request.pages.size(); ++i) {
      Page& page = request.pages[i];
      if (page.is_told || request.verdicts[i].verdict == Verdict::kPending) continue;
      page.is_told = true;
      Ended ended = {page.place, request.verdicts[i]};
      if (ended.verdict.verdict == Verdict::kReady) {
        ended.verdict.landed = request.push.payload(i).data();
        places_[page.place].emplace(request.push.take(i));
      }
      if (--request.untold > 0) return ended;
      request.push = Push();
      request.asked.clear();
      request.pages.clear();
      recycled_.push_back(std::move(sent));
      std::erase(sent_, nullptr);
      return ended;
    }
  }
  return std::nullopt;
}

void AheadPushes::give_back(uint32_t place) {
  places_[place].reset();
  free_.push_back(place);
}

void AheadPushes::wait(uint64_t until_ns) {
  if (!sent_.empty()) lane_.wait(until_ns);
}

LaneStats AheadPushes::stats() const {
  const PushStats pushed = lane_.stats();
  return {.pages_ready = pushed.pages_ready,
          .pages_recompute = pushed.pages_recompute,
          .posts = pushed.requests,
          .channels_ended = pushed.landings_ended};
}

}  // namespace farpage
