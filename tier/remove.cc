#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "tier/client.h"
#include "tier/link/fleet_link.h"
#include "tier/link/link_use.h"
#include "tier/node_writes.h"

namespace farpage {

struct RemoveState {
  const std::vector<PageKey> keys;
  const uint64_t deadline_ns;

  std::mutex mutex;  // of what follows
  size_t taken = 0;  // of the keys
  bool is_sending = false;
  uint64_t removed = 0;
  std::optional<Error> error;
  std::vector<LinkUse> unanswered;    // one a request
  std::shared_ptr<NodeSession> last;  // that was asked

  RemoveState(std::span<const PageKey> of, uint64_t until_ns)
      : keys(of.begin(), of.end()), deadline_ns(until_ns) {}

  bool done() {
    std::lock_guard lock(mutex);
    return is_done();
  }

  // With the lock.
  bool is_done() const { return taken == keys.size() && !is_sending && unanswered.empty(); }

  // With the lock.
  void answered(const std::shared_ptr<NodeSession>& node) {
    unanswered.erase(std::ranges::find(unanswered, node, &LinkUse::link));
  }
};

Remove::Remove(Runtime* runtime, std::shared_ptr<RemoveState> state)
    : runtime_(runtime), state_(std::move(state)) {}

bool Remove::done() const {
  return state_->done();
}

Result<uint64_t> Remove::wait() {
  runtime_->wait_until(state_->deadline_ns, [this] { return state_->done(); });
  std::lock_guard lock(state_->mutex);
  if (state_->error) return tl::unexpected(*state_->error);
  if (!state_->is_done()) {
    const auto& slow =
        state_->unanswered.empty() ? state_->last : state_->unanswered.front().link();
    if (slow == nullptr) {
      return fail(Code::kTimeout,
                  "the deadline passed before the client sent the remove: it removed no page");
    }
    return fail(Code::kTimeout, slow->name() +
                                    " did not acknowledge the remove by its deadline; the pages "
                                    "may be removed or not");
  }
  return state_->removed;
}

namespace {

constexpr uint64_t kLookNs = kMillisecond;  // between two looks at a link that is coming

// Keys to remove, no more than one request takes, which go to the primaries that the epoch of now
// says.
void send_removes(const std::shared_ptr<FleetLink>& fleet,
                  const std::shared_ptr<RemoveState>& state, std::span<const PageKey> keys);
// The next keys, unless some are under way: however many there are, others' messages to the nodes
// wait behind one request alone.
void send_on(const std::shared_ptr<FleetLink>& fleet, const std::shared_ptr<RemoveState>& state);

// Its reply is none that acknowledges.
Error why_not_removed(const FleetLink& fleet, const std::string& node, const Result<Reply>& reply) {
  if (!reply) {
    return {Code::kUnavailable,
            "the connection to " + node +
                " ended before it answered the remove: " + reply.error().message};
  }
  const auto* refusal = std::get_if<Refusal>(&*reply);
  if (refusal == nullptr) return {Code::kProtocol, node + " answered the remove with another kind"};
  const Code here = fleet.has_register() ? Code::kUnavailable : Code::kInvalid;
  const Code code = refusal->code == Code::kOtherEpoch ? here : refusal->code;
  return {code, node + " refused the remove: " + refusal->message};
}

// `node`: among those that have not answered, until then.
void send_later(const std::shared_ptr<FleetLink>& fleet, const std::shared_ptr<RemoveState>& state,
                const std::shared_ptr<NodeSession>& node, std::vector<PageKey> keys,
                uint64_t delay_ns) {
  fleet->runtime().after(delay_ns, [fleet, state, node, keys = std::move(keys)] {
    send_removes(fleet, state, keys);
    // Before notify(): who waits holds the runtime's lock when it asks for the state's.
    {
      const std::lock_guard lock(state->mutex);
      state->answered(node);
    }
    send_on(fleet, state);
    fleet->runtime().notify();
  });
}

void removed(const std::shared_ptr<FleetLink>& fleet, const std::shared_ptr<RemoveState>& state,
             const std::shared_ptr<NodeSession>& node, const std::vector<PageKey>& keys,
             const Result<Reply>& reply) {
  Runtime& runtime = fleet->runtime();
  const bool again = is_of_other_epoch(reply) && fleet->has_register() &&
                     runtime.clock().now_ns() < state->deadline_ns;
  if (again) {
    fleet->look_again(*node);
    return send_later(fleet, state, node, keys, fleet->view_ns() / kLooksPerView);
  }
  {
    const std::lock_guard lock(state->mutex);
    state->answered(node);
    const auto* answered = reply ? std::get_if<RemoveReply>(&*reply) : nullptr;
    if (answered != nullptr) {
      state->removed += answered->removed;
    } else {
      state->error = why_not_removed(*fleet, node->name(), reply);
    }
  }
  send_on(fleet, state);
  runtime.notify();
}

void send_removes(const std::shared_ptr<FleetLink>& fleet,
                  const std::shared_ptr<RemoveState>& state, std::span<const PageKey> keys) {
  const auto view = fleet->view();
  const uint64_t now = fleet->runtime().clock().now_ns();
  const bool wakes = !view->valid(now) && fleet->wakes();
  // At nodes that are being dialled, or that a client which wakes up has yet to hear of.
  std::vector<PageKey> later;
  std::shared_ptr<NodeSession> dialled;
  std::vector<std::vector<PageKey>> parts(view->links.size());
  for (const PageKey& key : keys) parts[view->placement.replicas(key).primary()].push_back(key);
  for (size_t member = 0; member < parts.size(); ++member) {
    std::vector<PageKey>& sent = parts[member];
    if (sent.empty()) continue;
    const std::shared_ptr<NodeSession>& session = view->links[member];
    session->start();
    if ((wakes || session->is_coming()) && now < state->deadline_ns) {
      later.insert(later.end(), sent.begin(), sent.end());
      dialled = session;
      continue;
    }
    const auto node = session->view();
    if (node == nullptr || !node->connected || !node->valid(now)) {
      std::string why = session->why_unreached();
      if (why.empty()) why = session->name() + " cannot be reached now";
      const std::lock_guard lock(state->mutex);
      state->error = Error{Code::kUnavailable, std::move(why)};
      continue;
    }
    {
      const std::lock_guard lock(state->mutex);
      state->unanswered.emplace_back(session);
      state->last = session;
    }
    node->link->call(RemoveRequest{sent, view->tag, patience_of_node(now, state->deadline_ns)},
                     [fleet, state, session, sent](const Result<Reply>& reply) {
                       removed(fleet, state, session, sent, reply);
                     });
  }
  if (later.empty()) return;
  {
    const std::lock_guard lock(state->mutex);
    state->unanswered.emplace_back(dialled);
    state->last = dialled;
  }
  send_later(fleet, state, dialled, std::move(later), kLookNs);
}

// A node may answer, on another thread or before call() returns, while this sends: then this goes
// on.
void send_on(const std::shared_ptr<FleetLink>& fleet, const std::shared_ptr<RemoveState>& state) {
  while (true) {
    std::span<const PageKey> next = state->keys;
    {
      const std::lock_guard lock(state->mutex);
      const bool is_late = fleet->runtime().clock().now_ns() >= state->deadline_ns;
      next = next.subspan(state->taken);
      if (state->is_sending || !state->unanswered.empty() || next.empty() || is_late) return;
      next = next.first(std::min<size_t>(next.size(), kMaxRemoveKeys));
      state->taken += next.size();
      state->is_sending = true;
    }
    send_removes(fleet, state, next);
    {
      const std::lock_guard lock(state->mutex);
      state->is_sending = false;
    }
    fleet->runtime().notify();
  }
}

}  // namespace

Remove Client::remove(std::span<const PageKey> keys, uint64_t deadline_ns) {
  auto state = std::make_shared<RemoveState>(keys, deadline_ns);
  send_on(fleet_, state);
  return Remove(&fleet_->runtime(), std::move(state));
}

}  // namespace farpage
