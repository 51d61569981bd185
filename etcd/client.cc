#include "etcd/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"

namespace farpage::etcd {
namespace {

constexpr size_t kMostIdle = 8;
constexpr uint64_t kLookUpNs = kSecond / 4;  // how often a silent watch sees whether it is to end

constexpr const char* kTransaction = "/v3/kv/txn";
constexpr const char* kGrant = "/v3/lease/grant";
constexpr const char* kKeepAlive = "/v3/lease/keepalive";
constexpr const char* kRevoke = "/v3/lease/revoke";
constexpr const char* kWatch = "/v3/watch";
constexpr const char* kAuthenticate = "/v3/auth/authenticate";

// That another endpoint would answer otherwise.
bool may_pass(Code code) {
  return code == Code::kUnavailable || code == Code::kTimeout || code == Code::kProtocol;
}

}  // namespace

Result<Client::Connection> Client::open(size_t endpoint, uint64_t deadline_ns) {
  auto opened = HttpConnection::open(access_.endpoints[endpoint], access_.tls.get(), deadline_ns);
  if (!opened) return tl::unexpected(opened.error());
  Connection connection = std::move(*opened);
  const std::lock_guard lock(mutex_);
  if (stopped_) return fail(Code::kAborted, "stopped");
  open_.insert(connection);
  return connection;
}

void Client::close(const Connection& connection) {
  const std::lock_guard lock(mutex_);
  open_.erase(connection);
}

Client::Connection Client::take_idle(size_t endpoint) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const auto& idle) { return idle.first == endpoint; });
  if (found == idle_.end()) return nullptr;
  Connection connection = std::move(found->second);
  idle_.erase(found);
  return connection;
}

// An idle connection may have been closed meanwhile, which says nothing of the endpoint.
Result<HttpReply> Client::exchange(size_t endpoint, const HttpRequest& request,
                                   uint64_t deadline_ns) {
  while (true) {
    Connection connection = take_idle(endpoint);
    const bool was_idle = connection != nullptr;
    if (!was_idle) {
      auto opened = open(endpoint, deadline_ns);
      if (!opened) return tl::unexpected(opened.error());
      connection = std::move(*opened);
    }
    auto reply = connection->post(request, deadline_ns);
    if (reply) {
      const std::lock_guard lock(mutex_);
      if (idle_.size() < kMostIdle) {
        idle_.emplace_back(endpoint, std::move(connection));
      } else {
        open_.erase(connection);
      }
      return reply;
    }
    close(connection);
    if (!was_idle || reply.error().code == Code::kTimeout) return reply;
  }
}

Result<std::string> Client::authorization(size_t endpoint, uint64_t deadline_ns) {
  if (access_.user.empty()) return std::string();
  {
    const std::lock_guard lock(mutex_);
    if (!token_.empty()) return token_;
  }
  auto reply = exchange(
      endpoint, {kAuthenticate, encode_authenticate(access_.user, access_.password.value()), ""},
      deadline_ns);
  if (!reply) return tl::unexpected(reply.error());
  if (reply->status != 200) {
    Error error = decode_error(reply->status, reply->body);
    if (error.code == Code::kDenied || error.code == Code::kAborted) {
      return fail(Code::kDenied,
                  fmt::format("etcd refuses '{}' (etcd.user): {}", access_.user, error.message));
    }
    return tl::unexpected(std::move(error));
  }
  auto token = decode_token(reply->body);
  if (!token) return token;
  const std::lock_guard lock(mutex_);
  return token_ = *token;
}

// Authenticates once more if the token has ended.
Result<std::string> Client::post_to(size_t endpoint, const std::string& path,
                                    const std::string& body, uint64_t deadline_ns) {
  for (bool again = false;; again = true) {
    auto token = authorization(endpoint, deadline_ns);
    if (!token) return token;
    auto reply = exchange(endpoint, {path, body, *token}, deadline_ns);
    if (!reply) return tl::unexpected(reply.error());
    if (reply->status == 200) return std::move(reply->body);
    Error error = decode_error(reply->status, reply->body);
    if (error.code == Code::kAborted && !again && !access_.user.empty()) {
      const std::lock_guard lock(mutex_);
      if (token_ == *token) token_.clear();
      continue;
    }
    const std::string where = format_host_port(access_.endpoints[endpoint]);
    if (error.code == Code::kAborted) {
      error = {Code::kDenied,
               error.message + ": set etcd.user and etcd.password_file to a user of it"};
    } else if (error.code == Code::kDenied) {
      error.message +=
          fmt::format(": its user needs a role that may read and write below '{}'", access_.prefix);
    }
    error.message = fmt::format("the etcd at {} says {}", where, error.message);
    return tl::unexpected(std::move(error));
  }
}

Result<void> Client::believe(const Header& header, Revision at_least) {
  const std::lock_guard lock(mutex_);
  if (cluster_id_ == 0) cluster_id_ = header.cluster_id;
  if (header.cluster_id != cluster_id_) {
    ++disbelieved_;
    return fail(Code::kDenied,
                fmt::format("an etcd of cluster {:x} answers where cluster {:x} did: are "
                            "etcd.endpoints of two clusters, or was its data lost? Its answer is "
                            "not used; after a loss restart all nodes and clients of the fleet",
                            header.cluster_id, cluster_id_));
  }
  if (header.revision < at_least) {
    ++disbelieved_;
    return fail(
        Code::kUnavailable,
        fmt::format("etcd answers from revision {} after {}: was a member of it set back? If its "
                    "data was lost, restart all nodes and clients of the fleet",
                    header.revision, at_least));
  }
  revision_ = std::max(revision_, header.revision);
  return {};
}

template <typename Reply, typename Decode>
Result<Reply> Client::ask(size_t endpoint, const std::string& path, const std::string& body,
                          uint64_t deadline_ns, const Decode& decode) {
  auto text = post_to(endpoint, path, body, deadline_ns);
  if (!text) return tl::unexpected(text.error());
  Result<Reply> reply = decode(*text);
  if (reply || reply.error().code != Code::kProtocol) return reply;
  return fail(
      Code::kProtocol,
      fmt::format("the answer of {} to {} is not one of etcd's messages ({}): is something "
                  "else at etcd.endpoints?",
                  format_host_port(access_.endpoints[endpoint]), path, reply.error().message));
}

// Each endpoint has an equal share of the time that is left, so that one that hangs leaves some to
// the others. An answer that is not believed is of no more use than none.
template <typename Reply, typename Decode>
Result<Reply> Client::call(const std::string& path, const std::string& body, Revision at_least,
                           uint64_t deadline_ns, const Decode& decode) {
  size_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return fail(Code::kAborted, "stopped");
    first = endpoint_;
  }
  const size_t count = access_.endpoints.size();
  for (size_t i = 0;; ++i) {
    const size_t endpoint = (first + i) % count;
    const uint64_t now = std::min(boottime_clock().now_ns(), deadline_ns);
    auto reply = ask<Reply>(endpoint, path, body, now + (deadline_ns - now) / (count - i), decode);
    bool failed = !reply && may_pass(reply.error().code);
    if (reply) {
      if (auto believed = believe(reply->header, at_least); !believed) {
        reply = tl::unexpected(believed.error());
        failed = true;
      }
    }
    if (failed && i + 1 < count) continue;
    const std::lock_guard lock(mutex_);
    endpoint_ = failed ? (endpoint + 1) % count : endpoint;
    return reply;
  }
}

Result<TransactionReply> Client::run(const Transaction& transaction, uint64_t deadline_ns) {
  Revision at_least = 0;
  {
    const std::lock_guard lock(mutex_);
    at_least = revision_;
  }
  return call<TransactionReply>(
      kTransaction, encode(transaction), at_least, deadline_ns,
      [&](const std::string& text) { return decode_transaction(transaction, text); });
}

Result<LeaseReply> Client::grant(uint64_t ttl_s, uint64_t deadline_ns) {
  return call<LeaseReply>(kGrant, encode_grant(ttl_s), 0, deadline_ns, decode_grant);
}

Result<LeaseReply> Client::keep_alive(LeaseId lease, uint64_t deadline_ns) {
  auto reply = call<LeaseReply>(kKeepAlive, encode_lease(lease), 0, deadline_ns, decode_keep_alive);
  if (reply && reply->ttl_s == 0) return fail(Code::kNotFound, "the lease has ended");
  return reply;
}

Result<void> Client::revoke(LeaseId lease, uint64_t deadline_ns) {
  auto reply = call<RevokeReply>(kRevoke, encode_lease(lease), 0, deadline_ns, decode_revoke);
  if (!reply) return tl::unexpected(reply.error());
  return {};
}

Error Client::watch(const std::string& key, uint64_t open_deadline_ns,
                    const std::function<void()>& opened, const std::function<void()>& changed) {
  size_t endpoint = 0;
  {
    const std::lock_guard lock(mutex_);
    endpoint = endpoint_;
  }
  auto token = authorization(endpoint, open_deadline_ns);
  if (!token) return token.error();
  auto connection = open(endpoint, open_deadline_ns);
  if (!connection) return connection.error();
  const auto follow = [&]() -> Error {
    auto begun = (*connection)->begin_lines({kWatch, encode_watch(key), *token}, open_deadline_ns);
    if (!begun) return begun.error();
    bool told = false;
    while (true) {
      auto line = (*connection)->next_line(boottime_clock().now_ns() + kLookUpNs);
      if (!line && line.error().code == Code::kTimeout) {
        if (!told && boottime_clock().now_ns() > open_deadline_ns) return line.error();
        continue;
      }
      if (!line) return line.error();
      auto reply = decode_watch(*line);
      if (!reply) return reply.error();
      if (auto believed = believe(reply->header, 0); !believed) return believed.error();
      if (reply->canceled) return {Code::kAborted, "etcd has ended the watch"};
      if (!std::exchange(told, true)) opened();
      if (reply->changed) changed();
    }
  };
  Error error = follow();
  close(*connection);
  return error;
}

uint64_t Client::disbelieved() const {
  const std::lock_guard lock(mutex_);
  return disbelieved_;
}

void Client::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const Connection& connection : open_) connection->interrupt();
}

}  // namespace farpage::etcd
