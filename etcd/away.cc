#include "etcd/away.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "etcd/json.h"

namespace farpage::etcd {
namespace {

namespace json = boost::json;

std::string folder(const std::string& prefix) {
  return prefix + "away/";
}

Result<AwayRecord> decode(const std::string& prefix, const KeyValue& entry) {
  const json::object key = {{"node", entry.key.substr(folder(prefix).size())}};
  AwayRecord record;
  Fields name(key);
  record.by = name.hex("node");
  auto object = parse_object(entry.value);
  if (!object) return tl::unexpected(object.error());
  Fields fields(*object);
  record.epoch = fields.number("epoch");
  for (const json::value& node : fields.array("nodes")) {
    if (!node.is_object()) return fail(Code::kInvalid, "a node is no object");
    Fields one(node.get_object());
    record.nodes.push_back(one.hex("node"));
    if (!one.error().empty()) return fail(Code::kInvalid, one.error());
  }
  if (!name.error().empty()) return fail(Code::kInvalid, name.error());
  if (!fields.error().empty()) return fail(Code::kInvalid, fields.error());
  return record;
}

}  // namespace

std::string away_key(const std::string& prefix, NodeId by) {
  return folder(prefix) + to_hex(by);
}

std::string encode(const AwayRecord& record) {
  json::array nodes;
  for (const NodeId node : record.nodes) nodes.push_back(json::object{{"node", to_hex(node)}});
  return json::serialize(json::object{{"epoch", record.epoch}, {"nodes", nodes}});
}

Transaction read_away(const std::string& prefix) {
  Transaction transaction;
  transaction.operations = {{Operation::Kind::kGetAll, folder(prefix)}};
  return transaction;
}

Result<std::vector<AwayRecord>> decode_away(const std::string& prefix,
                                            const TransactionReply& reply) {
  std::vector<AwayRecord> records;
  if (reply.found.size() != 1) {
    return fail(Code::kProtocol, "etcd answers something else than was asked");
  }
  for (const KeyValue& entry : reply.found[0]) {
    if (!entry.key.starts_with(folder(prefix))) continue;
    auto record = decode(prefix, entry);
    if (!record) {
      return fail(Code::kInvalid,
                  fmt::format("in etcd, '{}' is none of this program's records ({})", entry.key,
                              record.error().message));
    }
    records.push_back(std::move(*record));
  }
  return records;
}

// From the youngest on: members stand in the order in which they joined.
std::vector<NodeId> reached_by_nobody(const Epoch& epoch, const std::vector<NodeId>& living,
                                      const std::vector<AwayRecord>& said) {
  std::vector<NodeId> stay;
  for (const Member& member : epoch.members) {
    if (std::ranges::find(living, member.node) != living.end()) stay.push_back(member.node);
  }
  const auto misses = [&](NodeId by, NodeId node) {
    return std::ranges::any_of(said, [&](const AwayRecord& record) {
      return record.by == by && record.epoch == epoch.number &&
             std::ranges::find(record.nodes, node) != record.nodes.end();
    });
  };
  std::vector<NodeId> out;
  for (size_t place = stay.size(); place-- > 0 && stay.size() > 1;) {
    const NodeId node = stay[place];
    const bool is_missed = std::ranges::all_of(
        stay, [&](NodeId other) { return other == node || misses(other, node); });
    if (!is_missed) continue;
    out.push_back(node);
    stay.erase(stay.begin() + static_cast<ptrdiff_t>(place));
  }
  return out;
}

}  // namespace farpage::etcd
