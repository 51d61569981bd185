#include "etcd/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "etcd/json.h"

namespace farpage::etcd {
namespace {

namespace json = boost::json;

tl::unexpected<Error> refuse(const std::string& key, const std::string& why) {
  return fail(Code::kInvalid,
              fmt::format("in etcd, '{}' is not a record of this program ({}): does something "
                          "else, or a later version, use this etcd.fleet?",
                          key, why));
}

tl::unexpected<Error> refuse_release(const std::string& key, const char* what, uint64_t theirs,
                                     uint64_t ours) {
  return fail(Code::kInvalid,
              fmt::format("in etcd, '{}' is of another release of farpage ({} {}, and this program "
                          "has {}): run one release on all nodes and clients of the fleet, which "
                          "docs/operations.md#another-placement says how to change",
                          key, what, theirs, ours));
}

Result<Terms> decode_terms(const KeyValue& entry) {
  auto object = parse_object(entry.value);
  if (!object) return refuse(entry.key, object.error().message);
  Fields fields(*object);
  const uint64_t format = fields.number("format");
  const Terms terms = {fields.number("lease_ms"), fields.number("page_bytes"),
                       fields.number("replicas"), fields.hex("seed"), fields.hex("id")};
  if (!fields.error().empty()) return refuse(entry.key, fields.error());
  if (format != kRecordFormat) {
    if (format == 0) return refuse(entry.key, "it has no format");
    return refuse_release(entry.key, "format", format, kRecordFormat);
  }
  if (terms.id == 0) return refuse(entry.key, "it has no id");
  if (terms.lease_ms == 0) return refuse(entry.key, "its lease_ms is 0");
  return terms;
}

Result<Epoch> decode_epoch(const KeyValue& entry) {
  auto object = parse_object(entry.value);
  if (!object) return refuse(entry.key, object.error().message);
  Fields fields(*object);
  if (const uint64_t placement = fields.number("placement");
      fields.error().empty() && placement != kPlacementVersion) {
    return refuse_release(entry.key, "placement", std::max<uint64_t>(placement, 1),
                          kPlacementVersion);
  }
  Epoch epoch = {.number = fields.number("number"),
                 .replicas = fields.number("replicas"),
                 .seed = fields.hex("seed"),
                 .page_bytes = fields.number("page_bytes"),
                 .members = {}};
  for (const json::value& member : fields.array("members")) {
    if (!member.is_object()) return refuse(entry.key, "a member is no object");
    Fields one(member.get_object());
    const uint64_t slot = member.get_object().contains("slot") ? one.number("slot") : kNoSlot;
    epoch.members.push_back({one.hex("node"), one.hex("incarnation"), one.flag("leaving"),
                             static_cast<uint16_t>(std::min<uint64_t>(slot, kNoSlot))});
    if (!one.error().empty()) return refuse(entry.key, one.error());
  }
  if (!fields.error().empty()) return refuse(entry.key, fields.error());
  if (auto valid = validate(epoch); !valid) return refuse(entry.key, valid.error().message);
  return epoch;
}

Result<NodeRecord> decode_node(const std::string& prefix, const KeyValue& entry) {
  auto object = parse_object(entry.value);
  if (!object) return refuse(entry.key, object.error().message);
  Fields fields(*object);
  NodeRecord node = {entry.key.substr(node_key(prefix, "").size()), fields.text("address"),
                     fields.hex("owner"), entry.lease, entry.mod_revision};
  if (!fields.error().empty()) return refuse(entry.key, fields.error());
  return node;
}

std::string confirmations(const std::string& prefix) {
  return prefix + "confirmed/";
}

Result<void> add_confirmation(const std::string& prefix, const KeyValue& entry,
                              FleetRecord& fleet) {
  const std::string digits = entry.key.substr(confirmations(prefix).size());
  const json::object object = {{"node", digits}, {"number", entry.value}};
  Fields fields(object);
  const NodeId node = fields.hex("node");
  const uint64_t number = fields.number("number");
  if (!fields.error().empty()) return refuse(entry.key, fields.error());
  fleet.confirmations[node] = number;
  return {};
}

Result<void> add_node(const std::string& prefix, const KeyValue& entry, FleetRecord& fleet) {
  auto node = decode_node(prefix, entry);
  if (!node) return tl::unexpected(node.error());
  const auto place = std::ranges::lower_bound(fleet.nodes, node->name, {}, &NodeRecord::name);
  if (place != fleet.nodes.end() && place->name == node->name) {
    *place = std::move(*node);
  } else {
    fleet.nodes.insert(place, std::move(*node));
  }
  return {};
}

Result<void> add_drained(const std::string& prefix, const KeyValue& entry, FleetRecord& fleet) {
  std::string name = entry.key.substr(drained_key(prefix, "").size());
  const auto place = std::ranges::lower_bound(fleet.drained, name);
  if (place == fleet.drained.end() || *place != name) fleet.drained.insert(place, std::move(name));
  return {};
}

// The records of which each node has one of its own: what the keys begin with, who takes one, and
// how many there are.
struct Folder {
  std::string begin;
  Result<void> (*add)(const std::string& prefix, const KeyValue& entry, FleetRecord& fleet);
  size_t (*count)(const FleetRecord& fleet);
};

std::array<Folder, 3> folders(const std::string& prefix) {
  return {Folder{confirmations(prefix), add_confirmation,
                 [](const FleetRecord& fleet) { return fleet.confirmations.size(); }},
          Folder{node_key(prefix, ""), add_node,
                 [](const FleetRecord& fleet) { return fleet.nodes.size(); }},
          Folder{drained_key(prefix, ""), add_drained,
                 [](const FleetRecord& fleet) { return fleet.drained.size(); }}};
}

// What follows from the records. Confirmations of other epochs count for nothing.
void conclude(FleetRecord& fleet) {
  RegisteredEpoch& registered = fleet.registered;
  registered.confirmed.clear();
  for (const auto& [node, number] : fleet.confirmations) {
    if (number == registered.epoch.number) registered.confirmed.push_back(node);
  }
  std::vector<NodeId> living;
  for (const NodeRecord& node : fleet.nodes) living.push_back(node.id);
  std::ranges::sort(living);
  registered.silent.clear();
  for (const Member& member : registered.epoch.members) {
    if (!std::ranges::binary_search(living, member.node)) registered.silent.push_back(member.node);
  }
}

Result<void> set_terms(const std::vector<KeyValue>& found, FleetRecord& fleet) {
  for (const KeyValue& entry : found) {
    auto terms = decode_terms(entry);
    if (!terms) return tl::unexpected(terms.error());
    fleet.terms = *terms;
  }
  return {};
}

Result<void> set_epoch(const std::vector<KeyValue>& found, FleetRecord& fleet) {
  for (const KeyValue& entry : found) {
    auto epoch = decode_epoch(entry);
    if (!epoch) return tl::unexpected(epoch.error());
    fleet.registered.epoch = std::move(*epoch);
    fleet.epoch_revision = entry.mod_revision;
  }
  return {};
}

// The answers from place `first` on are those of the folders.
Result<void> add_all(const std::string& prefix, const TransactionReply& reply, size_t first,
                     FleetRecord& fleet) {
  for (const Folder& folder : folders(prefix)) {
    for (const KeyValue& entry : reply.found[first]) {
      if (!entry.key.starts_with(folder.begin)) continue;
      if (auto added = folder.add(prefix, entry, fleet); !added) return added;
    }
    ++first;
  }
  fleet.revision = reply.header.revision;
  conclude(fleet);
  return {};
}

}  // namespace

bool Terms::agrees_with(const Terms& other) const {
  Terms same = other;
  same.id = id;
  return *this == same;
}

Result<void> FleetRecord::check_id(uint64_t id) const {
  if (terms && terms->id == id) return {};
  return fail(Code::kDenied,
              "etcd no longer knows this process's fleet: its data was lost, or set back to an "
              "earlier state. Restart all nodes and clients of the fleet");
}

const NodeRecord* FleetRecord::find(NodeId node) const {
  const auto found = std::ranges::find(nodes, node, &NodeRecord::id);
  return found == nodes.end() ? nullptr : &*found;
}

std::string terms_key(const std::string& prefix) {
  return prefix + "terms";
}

std::string epoch_key(const std::string& prefix) {
  return prefix + "epoch";
}

std::string confirmed_key(const std::string& prefix, NodeId node) {
  return confirmations(prefix) + to_hex(node);
}

std::string node_key(const std::string& prefix, const std::string& name) {
  return prefix + "nodes/" + name;
}

std::string drained_key(const std::string& prefix, const std::string& name) {
  return prefix + "drained/" + name;
}

std::string encode(const Terms& terms) {
  return json::serialize(json::object{{"format", kRecordFormat},
                                      {"id", to_hex(terms.id)},
                                      {"lease_ms", terms.lease_ms},
                                      {"page_bytes", terms.page_bytes},
                                      {"replicas", terms.replicas},
                                      {"seed", to_hex(terms.seed)}});
}

std::string encode(const Epoch& epoch) {
  json::array members;
  for (const Member& member : epoch.members) {
    json::object record = {{"node", to_hex(member.node)},
                           {"incarnation", to_hex(member.incarnation)},
                           {"slot", member.slot}};
    if (member.leaving) record["leaving"] = true;
    members.push_back(std::move(record));
  }
  return json::serialize(json::object{{"placement", kPlacementVersion},
                                      {"number", epoch.number},
                                      {"replicas", epoch.replicas},
                                      {"seed", to_hex(epoch.seed)},
                                      {"page_bytes", epoch.page_bytes},
                                      {"members", members}});
}

std::string encode(const NodeRecord& node) {
  return json::serialize(json::object{{"address", node.address}, {"owner", to_hex(node.owner)}});
}

std::string encode_confirmed(uint64_t number) {
  return std::to_string(number);
}

Transaction read_terms(const std::string& prefix) {
  Transaction transaction;
  transaction.operations = {{Operation::Kind::kGet, terms_key(prefix)}};
  return transaction;
}

Transaction read_fleet(const std::string& prefix) {
  using Kind = Operation::Kind;
  Transaction transaction;
  transaction.operations = {{Kind::kGet, terms_key(prefix)}, {Kind::kGet, epoch_key(prefix)}};
  for (const Folder& folder : folders(prefix)) {
    transaction.operations.push_back({Kind::kGetAll, folder.begin});
  }
  return transaction;
}

Result<FleetRecord> decode_fleet(const std::string& prefix, const TransactionReply& reply) {
  if (reply.found.size() != read_fleet(prefix).operations.size()) {
    return fail(Code::kProtocol, "etcd answers another request");
  }
  FleetRecord fleet;
  if (auto set = set_terms(reply.found[0], fleet); !set) return tl::unexpected(set.error());
  if (auto set = set_epoch(reply.found[1], fleet); !set) return tl::unexpected(set.error());
  if (auto added = add_all(prefix, reply, 2, fleet); !added) return tl::unexpected(added.error());
  return fleet;
}

Transaction read_changes(const std::string& prefix, const FleetRecord& known) {
  using Kind = Operation::Kind;
  Transaction transaction;
  transaction.conditions = {{epoch_key(prefix), known.epoch_revision}};
  transaction.operations = {{Kind::kGet, terms_key(prefix)}};
  for (const Folder& folder : folders(prefix)) {
    transaction.operations.push_back(
        {.kind = Kind::kGetAll, .key = folder.begin, .after = known.revision});
  }
  transaction.otherwise = transaction.operations;
  transaction.otherwise.push_back({Kind::kGet, epoch_key(prefix)});
  return transaction;
}

// A key that is there and was not written since is one of `known`. So if there are as many as
// `known` has with what was written since, they are the same.
Result<FleetRecord> apply_changes(const std::string& prefix, const FleetRecord& known,
                                  const TransactionReply& reply) {
  const auto all = folders(prefix);
  const size_t answers = 1 + all.size() + (reply.held ? 0 : 1);
  if (reply.found.size() != answers || reply.counts.size() != answers) {
    return fail(Code::kProtocol, "etcd answers another request");
  }
  FleetRecord fleet = known;
  fleet.terms.reset();
  if (auto set = set_terms(reply.found[0], fleet); !set) return tl::unexpected(set.error());
  if (fleet.terms != known.terms) return fail(Code::kAborted, "the fleet has other terms");
  if (!reply.held) {
    if (reply.found.back().empty()) return fail(Code::kAborted, "the epoch was erased since");
    if (auto set = set_epoch(reply.found.back(), fleet); !set) return tl::unexpected(set.error());
  }
  if (auto added = add_all(prefix, reply, 1, fleet); !added) return tl::unexpected(added.error());
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].count(fleet) != reply.counts[1 + i]) {
      return fail(Code::kAborted, "a record was erased since");
    }
  }
  return fleet;
}

}  // namespace farpage::etcd
