#include "node/fleet/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {
namespace {

constexpr uint64_t kPatienceMs = 2'000;  // of one hello

bool differs(const Error& error) {
  return error.code == Code::kDenied || error.code == Code::kInvalid ||
         error.code == Code::kProtocol;
}

}  // namespace

Meeting::Meeting(Runtime& runtime, Fabric& fabric, std::shared_ptr<FabricGate> gate,
                 const Fleet& fleet, const Member& self)
    : runtime_(runtime), fabric_(fabric), gate_(std::move(gate)), fleet_(fleet), self_(self) {}

Meeting::~Meeting() {
  for (const auto& [node, link] : links_) link->stop();
}

std::shared_ptr<NodeSession> Meeting::reach(NodeId node, uint64_t page_bytes) {
  std::shared_ptr<NodeSession>& link = links_[node];
  if (link != nullptr) return link;
  ClientOptions options;
  options.connect_ms = kPatienceMs;
  options.staging_bytes = 0;
  options.location_pages = 1;
  HelloExpectations terms;
  terms.self = self_.node;
  terms.incarnation = self_.incarnation;
  terms.peer = node;
  terms.page_bytes = page_bytes;
  terms.fixed = false;
  link =
      std::make_shared<NodeSession>(options, runtime_, fabric_, gate_, fleet_.dialer(node), terms);
  link->start();
  return link;
}

// Of several that it has not met, the one with whom waiting mends nothing is told.
Result<void> Meeting::with_all(const RegisteredEpoch& current) {
  Result<void> met;
  for (const Member& member : current.epoch.members) {
    if (member.node == self_.node) continue;
    if (std::ranges::find(current.silent, member.node) != current.silent.end()) continue;
    const auto link = reach(member.node, current.epoch.page_bytes);
    const auto error = link->error();
    if (link->view() != nullptr || (error && error->code == Code::kOtherEpoch)) continue;
    if (!met && (met.error().code == Code::kInvalid || !error || !differs(*error))) continue;
    met = fail(error && differs(*error) ? Code::kInvalid : Code::kUnavailable,
               fmt::format("it and member {:016x} have not reached each other: {}", member.node,
                           error ? error->message : "there is no answer yet"));
  }
  return met;
}

}  // namespace farpage
