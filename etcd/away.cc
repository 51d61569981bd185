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

// A record that this program does not understand says nothing: it may be a later version's.
std::vector<AwayRecord> decode_away(const std::string& prefix, const TransactionReply& reply) {
  std::vector<AwayRecord> records;
  for (const auto& found : reply.found) {
    for (const KeyValue& entry : found) {
      if (!entry.key.starts_with(folder(prefix))) continue;
      if (auto record = decode(prefix, entry)) records.push_back(std::move(*record));
    }
  }
  return records;
}

// From the youngest on: members stand in the order in which they joined.
std::vector<NodeId> reached_by_nobody(const Epoch& epoch, const std::vector<Process>& processes,
                                      const std::vector<AwayRecord>& said) {
  const auto process_of = [&](NodeId node) {
    return std::ranges::find(processes, node, &Process::node);
  };
  std::vector<NodeId> stay;
  for (const Member& member : epoch.members) {
    if (process_of(member.node) != processes.end()) stay.push_back(member.node);
  }
  const size_t living = stay.size();
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
    if (!is_missed || process_of(node)->is_new) continue;
    out.push_back(node);
    stay.erase(stay.begin() + static_cast<ptrdiff_t>(place));
  }
  // Where no two members reach each other, their network has failed and not one of them: to leave
  // them out would empty them all. Two members cannot tell one from the other.
  const bool any_pair = std::ranges::any_of(stay, [&](NodeId one) {
    return std::ranges::any_of(stay, [&](NodeId other) {
      return one != other && !misses(one, other) && !misses(other, one);
    });
  });
  if (living > 2 && !any_pair) out.clear();
  return out;
}

}  // namespace farpage::etcd
