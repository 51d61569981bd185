#include "etcd/drain.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage::etcd {

Result<FleetRecord> read_fleet(Client& client, uint64_t deadline_ns) {
  return client.run(read_fleet(client.prefix()), deadline_ns)
      .and_then(
          [&](const TransactionReply& reply) { return decode_fleet(client.prefix(), reply); });
}

Result<void> begin_leaving(Client& client, const std::string& name, uint64_t deadline_ns) {
  while (true) {
    auto fleet = read_fleet(client, deadline_ns);
    if (!fleet) return tl::unexpected(fleet.error());
    Epoch next = fleet->registered.epoch;
    const auto member = std::ranges::find(next.members, node_id(name), &Member::node);
    if (!fleet->terms || member == next.members.end()) {
      return fail(Code::kNotFound,
                  fmt::format("no member of the fleet below '{}' in etcd is called '{}'",
                              client.prefix(), name));
    }
    if (member->leaving) return {};
    member->leaving = true;
    if (next.holders() == 0) {
      return fail(Code::kInvalid, fmt::format("'{}' is the only node that holds pages: start "
                                              "another one first",
                                              name));
    }
    ++next.number;
    next.set_replicas(fleet->terms->replicas);
    if (auto valid = validate(next); !valid) return valid;
    Transaction transaction;
    transaction.conditions = {{epoch_key(client.prefix()), fleet->epoch_revision}};
    transaction.operations = {{Operation::Kind::kPut, epoch_key(client.prefix()), encode(next)}};
    auto written = client.run(transaction, deadline_ns);
    if (!written) return tl::unexpected(written.error());
    if (written->held) return {};
  }
}

Result<void> let_go(Client& client, const std::string& name, Revision epoch_revision,
                    uint64_t deadline_ns) {
  Transaction transaction;
  transaction.conditions = {{epoch_key(client.prefix()), epoch_revision}};
  transaction.operations = {{Operation::Kind::kPut, drained_key(client.prefix(), name)}};
  auto written = client.run(transaction, deadline_ns);
  if (!written) return tl::unexpected(written.error());
  if (!written->held) return fail(Code::kAborted, "another epoch has begun meanwhile");
  return {};
}

}  // namespace farpage::etcd
