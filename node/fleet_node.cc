#include "node/fleet_node.h"

#include <fmt/format.h>

#include "base/log.h"

namespace farpage {
namespace {

constexpr uint64_t kTryAgainNs = kSecond;
constexpr ClientId kNone = 0;

}  // namespace

Result<void> FleetNode::check(const NodeOptions& options, const Fleet& fleet, NodeId self) {
  if (fleet.epochs != nullptr) return {};
  if (auto valid = validate(fleet.list); !valid) return valid;
  if (fleet.list.find(self) == nullptr) {
    return fail(Code::kInvalid, "this node is none of the list: its name must be in it");
  }
  if (fleet.list.page_bytes != options.page_bytes) {
    return fail(Code::kInvalid, fmt::format("node.page_bytes is {}, and the list of nodes says {}",
                                            options.page_bytes, fleet.list.page_bytes));
  }
  return {};
}

FleetNode::FleetNode(const NodeOptions& options, Runtime& runtime, Fabric& fabric,
                     const Fleet& fleet, NodeId self, std::shared_ptr<Versions> versions,
                     std::shared_ptr<MemoryBudget> budget, PoolHandoff* keeper)
    : options_(options),
      runtime_(runtime),
      fabric_(fabric),
      fleet_(fleet),
      self_(self),
      versions_(std::move(versions)),
      budget_(std::move(budget)),
      keeper_(keeper) {}

Result<void> FleetNode::begin() {
  const std::string whose =
      fleet_.epochs != nullptr ? "register" : fmt::format("list-{:x}", fleet_.list.identity());
  auto run = MemoryNode::make_run(options_, runtime_, fabric_, versions_, budget_, keeper_, whose);
  if (!run) return tl::unexpected(run.error());
  auto node = MemoryNode::create(options_, runtime_, fabric_, std::move(*run), fleet_, self_,
                                 [this] { renew(0); });
  if (!node) return tl::unexpected(node.error());
  run_ = std::move(*node);
  return {};
}

// Not at once: it is the old run that asks for it.
void FleetNode::renew(uint64_t delay_ns) {
  runtime_.after(delay_ns, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || former_ != nullptr) return;
    log_warning("this node was left out of the epoch: it rejoins empty");
    if (run_ == nullptr) return begin_again();
    former_ = std::move(run_);
    for (auto& [client, known_as] : run_client_) known_as = kNone;
    former_->withdraw([this, alive] {
      if (!alive.expired()) begin_again();
    });
  });
}

void FleetNode::begin_again() {
  former_.reset();  // before the next one asks for its memory
  if (auto begun = begin(); !begun) {
    log_warning("and cannot: " + begun.error().message);
    renew(kTryAgainNs);
  }
}

Result<ClientId> FleetNode::connected() {
  auto known_as = run_ == nullptr ? Result<ClientId>(kNone) : run_->connected();
  if (!known_as) return known_as;
  run_client_[++last_client_] = *known_as;
  return last_client_;
}

void FleetNode::handle(ClientId client, Request request, std::function<void(Reply)> done) {
  const auto found = run_client_.find(client);
  if (found == run_client_.end()) return;
  if (run_ == nullptr) {
    return done(Refusal{Code::kUnavailable, "this node was left out and is coming back", {}});
  }
  if (found->second == kNone) {
    auto known_as = run_->connected();
    if (!known_as) return done(Refusal{known_as.error().code, known_as.error().message, {}});
    found->second = *known_as;
  }
  run_->handle(found->second, std::move(request), std::move(done));
}

void FleetNode::disconnected(ClientId client) {
  const auto found = run_client_.find(client);
  if (found == run_client_.end()) return;
  const ClientId known_as = found->second;
  run_client_.erase(found);
  if (run_ != nullptr && known_as != kNone) run_->disconnected(known_as);
}

StatusReply FleetNode::status() const {
  return run_ == nullptr ? StatusReply() : run_->status();
}

}  // namespace farpage
