#include "replay/traces/row_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {

RowOrder::Session* RowOrder::session_of(const RowPlace& place) {
  if (!place.session && !place.chat) return nullptr;
  has_sessions_ = true;
  uint64_t id = place.session.value_or(place.chat.value_or(0));
  if (!place.session) {
    // A conversation has the id of its first request.
    if (place.parent_chat) {
      const auto parent = by_chat_.find(*place.parent_chat);
      if (parent != by_chat_.end()) id = parent->second;
    }
    by_chat_[*place.chat] = id;
  }
  const auto [at, is_new] = sessions_.try_emplace(id);
  if (is_new) at->second = {sessions_begun_++, 0, now_ms_};
  return &at->second;
}

Result<void> RowOrder::add(TraceRequest request, const RowPlace& place) {
  if (place.timestamp_ms && *place.timestamp_ms < now_ms_) {
    return fail(Code::kInvalid,
                fmt::format("timestamp {} comes after {}; requests stand in the order of time",
                            *place.timestamp_ms, now_ms_));
  }
  Session* session = session_of(place);
  const double before_ms = session != nullptr ? session->last_ms : now_ms_;
  request.timestamp_ms = place.timestamp_ms ? *place.timestamp_ms
                         : place.delay_ms   ? before_ms + *place.delay_ms
                                            : std::max(before_ms, now_ms_);
  if (request.timestamp_ms < now_ms_) {
    return fail(Code::kInvalid,
                fmt::format("its delay makes it {} ms, and {} ms has come before; put the lines of "
                            "a session one behind the other",
                            request.timestamp_ms, now_ms_));
  }
  if (session == nullptr) {
    request.session = sessions_begun_++;
  } else {
    request.session = session->number;
    request.turn = place.turn.value_or(session->turns);
    ++session->turns;
    session->last_ms = request.timestamp_ms;
  }
  if (place.timestamp_ms) now_ms_ = *place.timestamp_ms;
  waiting_pages_ += request.hash_ids.size();
  if (waiting_pages_ > kMostPagesWaiting) {
    return fail(Code::kInvalid,
                fmt::format("more than {} pages wait for their delays to be over: sort the "
                            "requests, and give them timestamps",
                            kMostPagesWaiting));
  }
  waiting_.push_back({added_++, std::move(request)});
  std::ranges::push_heap(waiting_, IsLater());
  return {};
}

void RowOrder::end() {
  has_ended_ = true;
}

std::optional<TraceRequest> RowOrder::take() {
  if (waiting_.empty()) return std::nullopt;
  if (!has_ended_ && waiting_.front().request.timestamp_ms > now_ms_) return std::nullopt;
  std::ranges::pop_heap(waiting_, IsLater());
  TraceRequest request = std::move(waiting_.back().request);
  waiting_.pop_back();
  waiting_pages_ -= request.hash_ids.size();
  return request;
}

}  // namespace farpage
