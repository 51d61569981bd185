#include "tier/link/hello_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kMaxDurationNs = 3'600 * kSecond;
constexpr size_t kMaxBackendName = 16;

// Whether it is the member that this link is for, of the same fleet.
Result<void> check_member(const HelloReply& reply, const HelloExpectations& terms) {
  if (reply.node != terms.peer) {
    if (terms.peer == 0) {
      return fail(Code::kInvalid, "this node is one of several: name all of them");
    }
    return fail(
        Code::kInvalid,
        reply.node == 0
            ? "the node that answers here serves alone: its configuration names no other nodes"
            : "another member answers here than the one that the list of nodes names");
  }
  if (terms.page_bytes != 0 && reply.page_bytes != terms.page_bytes) {
    return fail(Code::kInvalid, fmt::format("the node's pages are of up to {} bytes, those of its "
                                            "fleet of {}: node.page_bytes is the same at all",
                                            reply.page_bytes, terms.page_bytes));
  }
  if (terms.fixed && terms.epoch && reply.membership != terms.epoch()) {
    return fail(Code::kInvalid,
                "the node has another list of nodes, or another number of replicas: give every "
                "node and client the same");
  }
  return {};
}

}  // namespace

Result<void> check_hello(const HelloReply& reply, const HelloExpectations& terms,
                         std::string_view backend) {
  if (reply.protocol != kControlProtocol) {
    return fail(Code::kProtocol, fmt::format("the node speaks control protocol {}, this client {}: "
                                             "run the same version of farpage on both",
                                             reply.protocol, kControlProtocol));
  }
  if (!reply.backend.empty() && reply.backend != backend) {
    const bool is_name = reply.backend.size() <= kMaxBackendName &&
                         std::all_of(reply.backend.begin(), reply.backend.end(),
                                     [](char c) { return c >= 'a' && c <= 'z'; });
    if (!is_name) return fail(Code::kProtocol, "the node's hello names no backend");
    return fail(
        Code::kInvalid,
        fmt::format(
            "the node's pages travel over '{0}', and this client uses '{1}': choose --backend {0}",
            reply.backend, backend));
  }
  if (auto member = check_member(reply, terms); !member) return member;
  if (!terms.fixed && reply.epoch == 0) {
    return fail(Code::kUnavailable, "the node is a member of no epoch yet");
  }
  if (reply.epoch == 0 || reply.epoch > kMaxEpoch || reply.incarnation == 0 ||
      reply.newest_epoch > kMaxEpoch || reply.reuse_ns == 0 || reply.reuse_ns > kMaxDurationNs ||
      reply.lease_ns == 0 || reply.lease_ns > kMaxDurationNs) {
    return fail(Code::kProtocol, "the node's hello has a field out of range");
  }
  return {};
}

}  // namespace farpage
