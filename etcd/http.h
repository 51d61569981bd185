#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/address/address.h"
#include "net/security/tls.h"

namespace farpage::etcd {

struct HttpRequest {
  std::string path;
  std::string body;           // JSON
  std::string authorization;  // a header's value; empty: none
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

// One connection to one endpoint, kept for request after request. Blocks. One thread at a time, but
// for interrupt().
class HttpConnection {
 public:
  // `tls`: null without. Deadlines are of boottime_clock.
  static Result<std::unique_ptr<HttpConnection>> open(const Address& endpoint,
                                                      const std::shared_ptr<TlsContext>& tls,
                                                      uint64_t deadline_ns);
  ~HttpConnection();

  // After an error the connection is of no use any more. Replies of more than 16 MiB are refused.
  Result<HttpReply> post(const HttpRequest& request, uint64_t deadline_ns);

  // A reply that goes on: its lines are read one after the other. A reply with another status than
  // 200 ends as it comes, and is an error.
  Result<void> begin_lines(const HttpRequest& request, uint64_t deadline_ns);
  // Without the newline. kTimeout: none has come yet, and the next call goes on.
  Result<std::string> next_line(uint64_t deadline_ns);

  // From any thread: whatever waits, and all that follows, ends with an error.
  void interrupt();

 private:
  struct Wire;
  explicit HttpConnection(std::unique_ptr<Wire> wire);
  std::unique_ptr<Wire> wire_;
};

}  // namespace farpage::etcd
