#include "etcd/drain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage::etcd {

Leaving::Leaving(std::string name, const FleetRecord& fleet)
    : name_(std::move(name)),
      copies_(fleet.registered.epoch.replicas),
      epoch_revision_(fleet.epoch_revision) {
  for (const Member& member : fleet.registered.epoch.members) {
    if (member.node == node_id(name_)) {
      incarnation_ = member.incarnation;
    } else {
      others_.push_back(member);
    }
  }
}

const Member* Leaving::find(const FleetRecord& fleet) const {
  const Member* member = fleet.registered.epoch.find(node_id(name_));
  return member != nullptr && member->incarnation == incarnation_ ? member : nullptr;
}

Result<void> Leaving::follow(const FleetRecord& fleet) {
  const Member* self = find(fleet);
  if (self == nullptr || !self->leaving) {
    return fail(Code::kAborted, fmt::format("'{}' has left or come back meanwhile: check its log, "
                                            "and 'farpage status' of the others",
                                            name_));
  }
  const NodeRecord* record = fleet.find(self->node);
  record_revision_ = record == nullptr ? 0 : record->revision;
  if (std::exchange(epoch_revision_, fleet.epoch_revision) == fleet.epoch_revision) return {};
  lost_ += std::erase_if(others_, [&](const Member& other) {
    const Member* now = fleet.registered.epoch.find(other.node);
    return now == nullptr || now->incarnation != other.incarnation;
  });
  if (1 + lost_ < copies_) return {};
  return fail(Code::kAborted,
              fmt::format("another epoch has begun while '{}' was being drained, and pages that "
                          "were on no other node may be lost; the same command goes on",
                          name_));
}

Result<bool> Leaving::is_over(const FleetRecord& fleet) const {
  const Member* self = find(fleet);
  if (self != nullptr && !self->leaving) {
    return fail(Code::kAborted,
                fmt::format("'{}' was drained, and must hold pages again, for it is the only node "
                            "left: start another one, then drain it again",
                            name_));
  }
  const NodeRecord* record = fleet.find(node_id(name_));
  return self == nullptr && (record == nullptr || record->revision != record_revision_);
}

Result<FleetRecord> read_fleet(Client& client, uint64_t deadline_ns) {
  return client.run(read_fleet(client.prefix()), deadline_ns)
      .and_then(
          [&](const TransactionReply& reply) { return decode_fleet(client.prefix(), reply); });
}

Result<Revision> begin_leaving(Client& client, const std::string& name, const FleetRecord& fleet,
                               uint64_t deadline_ns) {
  Epoch next = fleet.registered.epoch;
  const auto member = std::ranges::find(next.members, node_id(name), &Member::node);
  if (!fleet.terms || member == next.members.end()) {
    return fail(Code::kNotFound,
                fmt::format("the fleet below '{}' in etcd has no member called '{}'",
                            client.prefix(), name));
  }
  if (member->leaving) return fleet.epoch_revision;
  member->leaving = true;
  if (next.holders() == 0) {
    return fail(Code::kInvalid, fmt::format("'{}' is the only node that holds pages: start "
                                            "another one first",
                                            name));
  }
  ++next.number;
  next.set_replicas(fleet.terms->replicas);
  if (auto valid = validate(next); !valid) return tl::unexpected(valid.error());
  Transaction transaction;
  transaction.conditions = {{epoch_key(client.prefix()), fleet.epoch_revision}};
  transaction.operations = {{Operation::Kind::kPut, epoch_key(client.prefix()), encode(next)}};
  auto written = client.run(transaction, deadline_ns);
  if (!written) return tl::unexpected(written.error());
  if (!written->held) return fail(Code::kAborted, "another epoch has begun meanwhile");
  return written->header.revision;
}

Result<void> let_go(Client& client, const Leaving& leaving, uint64_t deadline_ns) {
  Transaction transaction;
  transaction.conditions = {{epoch_key(client.prefix()), leaving.epoch_revision()},
                            {node_key(client.prefix(), leaving.name()), leaving.record_revision()}};
  transaction.operations = {{Operation::Kind::kPut, drained_key(client.prefix(), leaving.name())}};
  auto written = client.run(transaction, deadline_ns);
  if (!written) return tl::unexpected(written.error());
  if (!written->held) {
    return fail(Code::kAborted,
                "another epoch has begun meanwhile, or another process of its name");
  }
  return {};
}

}  // namespace farpage::etcd
