#include "etcd/records.h"

#include <fmt/format.h>

#include <algorithm>
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

struct Confirmation {
  NodeId node;
  uint64_t number;
};

Result<Confirmation> decode_confirmation(const std::string& prefix, const KeyValue& entry) {
  const std::string digits = entry.key.substr(std::string(prefix + "confirmed/").size());
  const json::object object = {{"node", digits}, {"number", entry.value}};
  Fields fields(object);
  const Confirmation read = {fields.hex("node"), fields.number("number")};
  if (!fields.error().empty()) return refuse(entry.key, fields.error());
  return read;
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
  const auto found = std::find_if(nodes.begin(), nodes.end(), [node](const NodeRecord& record) {
    return node_id(record.name) == node;
  });
  return found == nodes.end() ? nullptr : &*found;
}

std::string terms_key(const std::string& prefix) {
  return prefix + "terms";
}

std::string epoch_key(const std::string& prefix) {
  return prefix + "epoch";
}

std::string confirmed_key(const std::string& prefix, NodeId node) {
  return prefix + "confirmed/" + to_hex(node);
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
  transaction.operations = {{Kind::kGet, terms_key(prefix)},
                            {Kind::kGet, epoch_key(prefix)},
                            {Kind::kGetAll, prefix + "confirmed/"},
                            {Kind::kGetAll, node_key(prefix, "")},
                            {Kind::kGetAll, drained_key(prefix, "")}};
  return transaction;
}

Result<FleetRecord> decode_fleet(const std::string& prefix, const TransactionReply& reply) {
  if (reply.found.size() != read_fleet(prefix).operations.size()) {
    return fail(Code::kProtocol, "etcd answers another request");
  }
  FleetRecord fleet;
  for (const KeyValue& entry : reply.found[0]) {
    auto terms = decode_terms(entry);
    if (!terms) return tl::unexpected(terms.error());
    fleet.terms = *terms;
  }
  for (const KeyValue& entry : reply.found[1]) {
    auto epoch = decode_epoch(entry);
    if (!epoch) return tl::unexpected(epoch.error());
    fleet.registered.epoch = std::move(*epoch);
    fleet.epoch_revision = entry.mod_revision;
  }
  for (const KeyValue& entry : reply.found[2]) {
    if (!entry.key.starts_with(prefix + "confirmed/")) continue;
    auto confirmed = decode_confirmation(prefix, entry);
    if (!confirmed) return tl::unexpected(confirmed.error());
    if (confirmed->number != fleet.registered.epoch.number) continue;  // of an epoch before
    fleet.registered.confirmed.push_back(confirmed->node);
  }
  for (const KeyValue& entry : reply.found[3]) {
    if (!entry.key.starts_with(node_key(prefix, ""))) continue;
    auto node = decode_node(prefix, entry);
    if (!node) return tl::unexpected(node.error());
    fleet.nodes.push_back(std::move(*node));
  }
  for (const KeyValue& entry : reply.found[4]) {
    if (!entry.key.starts_with(drained_key(prefix, ""))) continue;
    fleet.drained.push_back(entry.key.substr(drained_key(prefix, "").size()));
  }
  return fleet;
}

}  // namespace farpage::etcd
