#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

// Requests to etcd and its answers: its v3 API in the JSON of its gateway (etcd 3.4 and later;
// api/etcdserverpb/rpc.proto there). Keys and values are base64 in it, 64-bit numbers are strings,
// and what is zero or empty is left out. Pure: bytes in, values out.
namespace farpage::etcd {

using Revision = uint64_t;
using LeaseId = uint64_t;

struct KeyValue {
  std::string key;
  std::string value;
  Revision mod_revision = 0;  // of the transaction that wrote it last
  LeaseId lease = 0;          // 0: none
};

// The header of every answer.
struct Header {
  uint64_t cluster_id = 0;
  Revision revision = 0;
};

// That the key was last written at `mod_revision`; 0: that there is none.
struct Condition {
  std::string key;
  Revision mod_revision = 0;
};

struct Operation {
  enum class Kind : uint8_t { kGet, kGetAll, kPut, kErase } kind = Kind::kGet;
  std::string key;  // kGetAll: what the keys begin with
  std::string value = {};
  LeaseId lease = 0;
  Revision after = 0;  // of gets: only keys that were written after it
};

// All or nothing: the operations happen if every condition holds, and else `otherwise`. One that
// only gets is linearizable, as etcd waits for its quorum first.
struct Transaction {
  std::vector<Condition> conditions;
  std::vector<Operation> operations;
  std::vector<Operation> otherwise = {};
};

struct TransactionReply {
  Header header;
  bool held = false;  // the conditions
  // By operation that happened; of gets, in the order of the keys.
  std::vector<std::vector<KeyValue>> found;
  // Likewise: how many keys there are, also those that `after` leaves out of `found`.
  std::vector<uint64_t> counts;
};

struct LeaseReply {
  Header header;
  LeaseId lease = 0;
  uint64_t ttl_s = 0;  // 0, of one that was to be kept: it has ended
};

struct RevokeReply {
  Header header;
};

struct WatchReply {
  Header header;
  bool changed = false;   // there are events in it
  bool canceled = false;  // it tells nothing more: its revision is compacted, say
};

std::string encode(const Transaction& transaction);
std::string encode_grant(uint64_t ttl_s);
std::string encode_lease(LeaseId lease);  // to keep or to revoke
std::string encode_watch(std::string_view key);
std::string encode_authenticate(std::string_view user, std::string_view password);

// kProtocol: it is none.
Result<TransactionReply> decode_transaction(const Transaction& asked, std::string_view text);
Result<LeaseReply> decode_grant(std::string_view text);
// As one line of the gateway's stream.
Result<LeaseReply> decode_keep_alive(std::string_view text);
Result<RevokeReply> decode_revoke(std::string_view text);
Result<WatchReply> decode_watch(std::string_view text);
Result<std::string> decode_token(std::string_view text);

// Of a reply that is an error: what to do next stands in its code.
//   kDenied: of this user, whatever is asked; kAborted: the token has ended, authenticate again;
//   kNotFound: the lease has ended; kUnavailable: another endpoint may serve.
Error decode_error(unsigned status, std::string_view text);

}  // namespace farpage::etcd
