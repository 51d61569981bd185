#include "node/fleet/epoch_watchers.h"

#include <iterator>
#include <utility>

#include "base/units.h"

namespace farpage {
namespace {

constexpr int kSeenInATurn = 16;
constexpr uint64_t kTurnNs = kMillisecond;
constexpr uint64_t kViewLookNs = 50 * kMillisecond;  // for the node's own view, where it has ended

}  // namespace

// The epoch is another one, and this node's own view of it has not ended.
bool EpochWatchers::can_tell(const EpochTag& known) const {
  return known != epoch_.tag() && epoch_.view_age_ns(runtime_.clock().now_ns()).has_value();
}

EpochReply EpochWatchers::news() const {
  EpochReply reply;
  const auto age_ns = epoch_.view_age_ns(runtime_.clock().now_ns());
  if (age_ns) reply.view = epoch_.tag();
  reply.view_age_ns = age_ns.value_or(0);
  return reply;
}

EpochWatchers::Answer EpochWatchers::take(Place waiting) {
  Answer done = std::move(waiting->done);
  if (next_ == waiting) ++next_;
  of_client_.erase(waiting->client);
  waiting_.erase(waiting);
  return done;
}

void EpochWatchers::add(ClientId client, const EpochTag& known, Answer done) {
  if (can_tell(known)) return done(news());
  const auto former = of_client_.find(client);
  const Answer superseded = former == of_client_.end() ? nullptr : take(former->second);
  waiting_.push_back({client, known, std::move(done)});
  const Place added = std::prev(waiting_.end());
  of_client_[client] = added;
  if (known != epoch_.tag() && next_ == waiting_.end()) tell_from(added);  // once there is a view
  if (superseded) superseded(news());  // last: an answer that cannot be sent ends its client
}

void EpochWatchers::disconnected(ClientId client) {
  const auto waiting = of_client_.find(client);
  if (waiting != of_client_.end()) take(waiting->second);
}

void EpochWatchers::begin_epoch() {
  tell_from(waiting_.begin());
}

void EpochWatchers::tell_from(Place next) {
  next_ = next;
  if (!std::exchange(telling_, true)) tell_some(kTurnNs);
}

// Never at once: the node has entered the epoch, and has its view of it right after.
void EpochWatchers::tell_some(uint64_t delay_ns) {
  runtime_.after(delay_ns, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    const bool has_view = epoch_.view_age_ns(runtime_.clock().now_ns()).has_value();
    for (int seen = 0; has_view && seen < kSeenInATurn && next_ != waiting_.end(); ++seen) {
      const Place waiting = next_++;
      if (!can_tell(waiting->known)) continue;
      const Answer done = take(waiting);
      done(news());
    }
    telling_ = next_ != waiting_.end();
    if (telling_) tell_some(has_view ? kTurnNs : kViewLookNs);
  });
}

void EpochWatchers::withdraw() {
  const std::list<Waiting> waiting = std::exchange(waiting_, {});
  next_ = waiting_.end();
  of_client_.clear();
  for (const Waiting& question : waiting) {
    question.done(Refusal{Code::kUnavailable, "this node was left out and is coming back", {}});
  }
}

}  // namespace farpage
