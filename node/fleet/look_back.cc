#include "node/fleet/look_back.h"

#include <fmt/format.h>

#include <utility>

#include "tier/link/membership.h"

namespace farpage {
namespace {

constexpr uint64_t kLookBackPatienceNs = 2 * kSecond;
constexpr uint64_t kLookAgainNs = 250 * kMillisecond;  // at one that was not reached
constexpr size_t kMostLooks = kMaxFleetMembers;        // names that a peer may make this node keep

}  // namespace

LookBack::LookBack(Runtime& runtime, std::string backend, const Fleet& fleet,
                   std::function<void()> read_again)
    : runtime_(runtime),
      backend_(std::move(backend)),
      fleet_(fleet),
      read_again_(std::move(read_again)) {}

Refusal LookBack::answer(NodeId node, uint64_t incarnation) {
  // A name that no process has registered is not dialled: whoever says hello may make up names.
  if (!fleet_.membership->has_address(node)) {
    read_again_();
    return {Code::kUnavailable, "no process of this name is registered", {}};
  }
  if (looks_.size() >= kMostLooks && !looks_.contains(node)) looks_.clear();
  Look& look = looks_[node];
  const uint64_t now = runtime_.clock().now_ns();
  if (look.begun_ns == 0 || look.incarnation != incarnation) {
    look.incarnation = incarnation;
    look.read_again = false;
    look.said = {Code::kUnavailable, "this member has not reached it back yet", {}};
  }
  const bool reached = look.ended && look.said.code == Code::kOtherEpoch;
  const bool may_look = look.begun_ns == 0 || (look.ended && now - look.begun_ns >= kLookAgainNs);
  if (!reached && may_look) begin(node, look);
  return look.said;
}

void LookBack::begin(NodeId node, Look& look) {
  const uint64_t begun = runtime_.clock().now_ns();
  look.begun_ns = begun;
  look.ended = false;
  const std::weak_ptr<bool> alive = alive_;
  fleet_.dialer(node).dial(
      [this, node, begun, alive](const Result<std::shared_ptr<ControlLink>>& link) {
        if (alive.expired()) return;
        if (!link) return end(node, begun, tl::unexpected(link.error()));
        asked(node, begun, *link);
      });
}

// The look keeps the link: a timer that did would outlive this node.
void LookBack::asked(NodeId node, uint64_t begun_ns, const std::shared_ptr<ControlLink>& link) {
  Look* look = of(node, begun_ns);
  if (look == nullptr) return;
  look->link = link;
  const std::weak_ptr<bool> alive = alive_;
  runtime_.after(kLookBackPatienceNs, [this, node, begun_ns, alive] {
    if (alive.expired()) return;
    end(node, begun_ns, fail(Code::kTimeout, "it does not answer: is it stopped?"));
    if (Look* ended = of(node, begun_ns)) ended->link.reset();
  });
  link->call(StatusRequest{}, [this, node, begun_ns, alive](const Result<Reply>& reply) {
    if (!alive.expired()) end(node, begun_ns, reply);
  });
}

LookBack::Look* LookBack::of(NodeId node, uint64_t begun_ns) {
  const auto found = looks_.find(node);
  return found == looks_.end() || found->second.begun_ns != begun_ns ? nullptr : &found->second;
}

// The first word of each look counts.
void LookBack::end(NodeId node, uint64_t begun_ns, const Result<Reply>& reply) {
  Look* look = of(node, begun_ns);
  if (look == nullptr || look->ended) return;
  look->ended = true;
  look->said = judge(node, look->incarnation, reply);
  // It may have begun anew elsewhere.
  const bool may_be_elsewhere = look->said.code == Code::kUnavailable;
  if (may_be_elsewhere && !std::exchange(look->read_again, true)) read_again_();
}

Refusal LookBack::judge(NodeId node, uint64_t incarnation, const Result<Reply>& reply) const {
  const auto not_reached = [node](Code code, const std::string& why) {
    const bool differs = code == Code::kDenied || code == Code::kInvalid || code == Code::kProtocol;
    return Refusal{differs ? Code::kInvalid : Code::kUnavailable,
                   fmt::format("this member does not reach node {:016x} back, as it has to for its "
                               "pages: {}",
                               node, why),
                   {}};
  };
  if (!reply) return not_reached(reply.error().code, reply.error().message);
  if (const auto* refusal = std::get_if<Refusal>(&*reply)) {
    return not_reached(refusal->code, refusal->message);
  }
  const auto* status = std::get_if<StatusReply>(&*reply);
  if (status == nullptr) return not_reached(Code::kProtocol, "it answers something else");
  if (status->incarnation != incarnation) {
    return not_reached(Code::kUnavailable,
                       "another run answers at its address (cluster.address): is that another "
                       "node's?");
  }
  if (status->backend != backend_) {
    return not_reached(Code::kInvalid, fmt::format("its pages travel over '{}', and those of this "
                                                   "member over '{}' (node.backend, node.listen)",
                                                   status->backend, backend_));
  }
  return {Code::kOtherEpoch, "this run is no member of the epoch", {}};
}

}  // namespace farpage
