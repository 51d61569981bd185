#include "etcd/messages.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "etcd/json.h"

namespace farpage::etcd {
namespace {

namespace json = boost::json;

constexpr uint64_t kUnauthenticated = 16;  // gRPC's codes
constexpr uint64_t kPermissionDenied = 7;
constexpr uint64_t kInvalidArgument = 3;
constexpr uint64_t kNotFound = 5;
constexpr size_t kMostSaid = 200;  // bytes of what it said, in a message

// The first key behind all that begin with this.
std::string end_of(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // all there are
  ++prefix.back();
  return prefix;
}

// Alarms, which stay until somebody disarms them, whatever etcd's members do by themselves.
std::string advice(const std::string& said) {
  if (said.find("database space exceeded") != std::string::npos) {
    return ": its database is full (alarm NOSPACE), and it takes nothing more. Compact its "
           "history (etcdctl compact REVISION, the \"revision\" of 'etcdctl endpoint status -w "
           "json'), run 'etcdctl defrag' at each endpoint, and then 'etcdctl alarm disarm'; it "
           "comes back unless etcd runs with --auto-compaction-retention, or a greater "
           "--quota-backend-bytes";
  }
  if (said.find("corrupt cluster") != std::string::npos) {
    return ": its members differ (alarm CORRUPT), and it takes nothing more. 'etcdctl alarm list' "
           "names the member; replace that one, and then run 'etcdctl alarm disarm'";
  }
  return "";
}

json::object encode_operation(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kGet:
    case Operation::Kind::kGetAll: {
      json::object range = {{"key", to_base64(operation.key)}};
      if (operation.kind == Operation::Kind::kGetAll) {
        range["range_end"] = to_base64(end_of(operation.key));
      }
      if (operation.after != 0) range["min_mod_revision"] = std::to_string(operation.after + 1);
      return {{"request_range", std::move(range)}};
    }
    case Operation::Kind::kPut:
      return {{"request_put",
               {{"key", to_base64(operation.key)},
                {"value", to_base64(operation.value)},
                {"lease", std::to_string(operation.lease)}}}};
    case Operation::Kind::kErase:
      return {{"request_delete_range", {{"key", to_base64(operation.key)}}}};
  }
  return {};
}

json::array encode_operations(const std::vector<Operation>& operations) {
  json::array encoded;
  for (const Operation& operation : operations) encoded.push_back(encode_operation(operation));
  return encoded;
}

Result<Header> read_header(const json::object& reply) {
  Fields fields(reply);
  const json::object header = fields.object("header");
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  Fields inner(header);
  const Header read = {inner.number("cluster_id"), inner.number("revision")};
  if (!inner.error().empty()) return fail(Code::kProtocol, inner.error());
  if (read.cluster_id == 0) return fail(Code::kProtocol, "no cluster_id");
  return read;
}

Result<std::vector<KeyValue>> read_range(const json::object& range) {
  std::vector<KeyValue> found;
  Fields fields(range);
  for (const json::value& entry : fields.array("kvs")) {
    const json::object* object = entry.if_object();
    if (object == nullptr) return fail(Code::kProtocol, "'kvs' holds something else than objects");
    Fields one(*object);
    found.push_back(
        {one.bytes("key"), one.bytes("value"), one.number("mod_revision"), one.number("lease")});
    if (!one.error().empty()) return fail(Code::kProtocol, one.error());
    if (found.back().mod_revision == 0) return fail(Code::kProtocol, "a key of no revision");
  }
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  return found;
}

// Where one reply is a line of a stream, it stands in "result", or "error" in its place.
Result<json::object> read_line(std::string_view text) {
  auto line = parse_object(text);
  if (!line) return line;
  if (line->contains("error")) return tl::unexpected(decode_error(200, text));
  Fields fields(*line);
  json::object result = fields.object("result");
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  return result;
}

Result<LeaseReply> read_lease(const json::object& reply) {
  auto header = read_header(reply);
  if (!header) return tl::unexpected(header.error());
  Fields fields(reply);
  const LeaseReply read = {*header, fields.number("ID"), fields.number("TTL")};
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  if (read.lease == 0) return fail(Code::kProtocol, "a lease without an ID");
  return read;
}

}  // namespace

std::string encode(const Transaction& transaction) {
  json::array compare;
  for (const Condition& condition : transaction.conditions) {
    compare.push_back({{"key", to_base64(condition.key)},
                       {"target", "MOD"},
                       {"result", "EQUAL"},
                       {"mod_revision", std::to_string(condition.mod_revision)}});
  }
  json::object asked = {{"compare", std::move(compare)},
                        {"success", encode_operations(transaction.operations)}};
  if (!transaction.otherwise.empty()) asked["failure"] = encode_operations(transaction.otherwise);
  return json::serialize(asked);
}

std::string encode_grant(uint64_t ttl_s) {
  return json::serialize(json::object{{"TTL", std::to_string(ttl_s)}});
}

std::string encode_lease(LeaseId lease) {
  return json::serialize(json::object{{"ID", std::to_string(lease)}});
}

std::string encode_watch(std::string_view key) {
  return json::serialize(json::object{{"create_request", {{"key", to_base64(key)}}}});
}

std::string encode_authenticate(std::string_view user, std::string_view password) {
  return json::serialize(json::object{{"name", user}, {"password", password}});
}

Result<TransactionReply> decode_transaction(const Transaction& asked, std::string_view text) {
  auto reply = parse_object(text);
  if (!reply) return tl::unexpected(reply.error());
  auto header = read_header(*reply);
  if (!header) return tl::unexpected(header.error());
  TransactionReply read;
  read.header = *header;
  Fields fields(*reply);
  read.held = fields.flag("succeeded");
  const json::array responses = fields.array("responses");
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  const auto& operations = read.held ? asked.operations : asked.otherwise;
  if (responses.size() != operations.size()) {
    return fail(Code::kProtocol,
                fmt::format("{} answers to {} operations", responses.size(), operations.size()));
  }
  for (size_t i = 0; i < responses.size(); ++i) {
    read.found.emplace_back();
    read.counts.push_back(0);
    const Operation::Kind kind = operations[i].kind;
    if (kind != Operation::Kind::kGet && kind != Operation::Kind::kGetAll) continue;
    const json::object* object = responses[i].if_object();
    if (object == nullptr || !object->contains("response_range")) {
      return fail(Code::kProtocol, "no answer to a get");
    }
    Fields one(*object);
    const json::object range = one.object("response_range");
    if (!one.error().empty()) return fail(Code::kProtocol, one.error());
    auto found = read_range(range);
    if (!found) return tl::unexpected(found.error());
    read.found.back() = std::move(*found);
    Fields counted(range);
    read.counts.back() = counted.number("count");
    if (!counted.error().empty()) return fail(Code::kProtocol, counted.error());
  }
  return read;
}

Result<LeaseReply> decode_grant(std::string_view text) {
  return parse_object(text).and_then(read_lease);
}

Result<LeaseReply> decode_keep_alive(std::string_view text) {
  return read_line(text).and_then(read_lease);
}

Result<RevokeReply> decode_revoke(std::string_view text) {
  return parse_object(text).and_then(read_header).map([](const Header& header) {
    return RevokeReply{header};
  });
}

Result<WatchReply> decode_watch(std::string_view text) {
  auto reply = read_line(text);
  if (!reply) return tl::unexpected(reply.error());
  auto header = read_header(*reply);
  if (!header) return tl::unexpected(header.error());
  Fields fields(*reply);
  const WatchReply read = {*header, !fields.array("events").empty(), fields.flag("canceled")};
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  return read;
}

Result<std::string> decode_token(std::string_view text) {
  auto reply = parse_object(text);
  if (!reply) return tl::unexpected(reply.error());
  Fields fields(*reply);
  std::string token = fields.text("token");
  if (!fields.error().empty()) return fail(Code::kProtocol, fields.error());
  if (token.empty()) return fail(Code::kProtocol, "no token");
  return token;
}

Error decode_error(unsigned status, std::string_view text) {
  std::string said(text.substr(0, kMostSaid));
  uint64_t grpc_code = 0;
  if (auto reply = parse_object(text)) {
    const json::value* error = reply->if_contains("error");
    // Of a stream it is an object of its own, with other names.
    const json::object& object =
        error != nullptr && error->is_object() ? error->get_object() : *reply;
    Fields fields(object);
    grpc_code = fields.number(object.contains("grpc_code") ? "grpc_code" : "code");
    if (const std::string message = fields.text("message"); !message.empty()) {
      said = message.substr(0, kMostSaid);
    }
    if (!fields.error().empty()) grpc_code = 0;
  }
  for (char& c : said) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  // They come with codes of all kinds; the last two once users or roles have changed since.
  for (const char* of_token : {"invalid auth token", "user name is empty",
                               "revision of auth store is old", "revision in header is old"}) {
    if (said.find(of_token) != std::string::npos) return {Code::kAborted, said};
  }
  switch (grpc_code) {
    case kUnauthenticated:
      return {Code::kAborted, said};
    case kPermissionDenied:
    case kInvalidArgument:  // a wrong user or password
      return {Code::kDenied, said};
    case kNotFound:
      return {Code::kNotFound, said};
    default:
      // A proxy in between speaks by its status alone.
      return {Code::kUnavailable, grpc_code != 0 ? said + advice(said)
                                                 : fmt::format("HTTP status {}: {}", status, said)};
  }
}

}  // namespace farpage::etcd
