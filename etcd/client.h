#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "etcd/http.h"
#include "etcd/messages.h"
#include "etcd/options.h"

namespace farpage::etcd {

// Calls to an etcd cluster. Each blocks until its deadline (boottime_clock) at most, and tries one
// endpoint after the other meanwhile, beginning with the one that answered last. Thread-safe.
//
// The client does not believe an answer from another cluster than the first that answered, or one
// with an older state than an answer that came before the question: kDenied and kUnavailable, if it
// believes no other endpoint either.
//
// An error of a transaction that changes something says nothing of whether it has happened; and one
// that did not hold may be one of this call's own that did, and whose answer was lost.
class Client {
 public:
  explicit Client(Access access) : access_(std::move(access)) {}

  const std::string& prefix() const { return access_.prefix; }

  Result<TransactionReply> run(const Transaction& transaction, uint64_t deadline_ns);

  // At least as long as etcd's own shortest (1.5 election timeouts).
  Result<LeaseReply> grant(uint64_t ttl_s, uint64_t deadline_ns);
  // kNotFound: it has ended.
  Result<LeaseReply> keep_alive(LeaseId lease, uint64_t deadline_ns);
  Result<void> revoke(LeaseId lease, uint64_t deadline_ns);

  // Tells of changes of one key until it fails: `opened` once it is told of all that follows,
  // `changed` for each answer. Has no deadline but for its beginning; stop() ends it.
  Error watch(const std::string& key, uint64_t open_deadline_ns,
              const std::function<void()>& opened, const std::function<void()>& changed);

  // Answers that it did not believe. More of them: etcd's state may be another than what earlier
  // answers told.
  uint64_t disbelieved() const;

  // Requests under way end with an error, and later ones too.
  void stop();

 private:
  using Connection = std::shared_ptr<HttpConnection>;

  // One request and its whole reply, decoded, as `decode` says it, and believed.
  template <typename Reply, typename Decode>
  Result<Reply> call(const std::string& path, const std::string& body, Revision at_least,
                     uint64_t deadline_ns, const Decode& decode);
  template <typename Reply, typename Decode>
  Result<Reply> ask(size_t endpoint, const std::string& path, const std::string& body,
                    uint64_t deadline_ns, const Decode& decode);
  Result<std::string> post_to(size_t endpoint, const std::string& path, const std::string& body,
                              uint64_t deadline_ns);
  Result<HttpReply> exchange(size_t endpoint, const HttpRequest& request, uint64_t deadline_ns);
  Result<std::string> authorization(size_t endpoint, uint64_t deadline_ns);
  Result<void> believe(const Header& header, Revision at_least);
  Result<Connection> open(size_t endpoint, uint64_t deadline_ns);
  void close(const Connection& connection);
  Connection take_idle(size_t endpoint);

  const Access access_;

  mutable std::mutex mutex_;  // of what follows; never held while something blocks
  bool stopped_ = false;
  size_t endpoint_ = 0;  // that answered last
  std::vector<std::pair<size_t, Connection>> idle_;
  std::unordered_set<Connection> open_;  // all of them
  std::string token_;
  uint64_t cluster_id_ = 0;  // 0: none has answered
  Revision revision_ = 0;    // the newest that was told of
  uint64_t disbelieved_ = 0;
};

}  // namespace farpage::etcd
