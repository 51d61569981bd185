#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

struct HttpResponse {
  int code = 200;
  std::string type;
  std::string body;
};

// Answers GET, one request a connection, on a thread of its own. The server cuts off a slow reader,
// at once where others would wait for its place, so that no other one waits. Instead of
// prometheus-cpp's own server: Debian builds that without IPv6.
class HttpServer {
 public:
  static constexpr uint64_t kPatienceNs = 5 * kSecond;

  // `answer` gets the path, without what stands behind a question mark. It is called on the thread,
  // and not after the destructor has returned. `patience_ns`: for a request, and again for its
  // response.
  static Result<std::unique_ptr<HttpServer>> start(
      UniqueFd listening, std::function<HttpResponse(const std::string&)> answer,
      uint64_t patience_ns = kPatienceNs);
  ~HttpServer();

 private:
  struct Connection {
    UniqueFd fd;
    uint64_t deadline_ns = 0;
    std::string request;
    std::string response;  // empty until the request is whole
    size_t sent = 0;
  };

  HttpServer(UniqueFd listening, UniqueFd stop,
             std::function<HttpResponse(const std::string&)> answer, uint64_t patience_ns);
  void serve();
  bool accept();
  // False: the connection has ended.
  bool advance(Connection& connection);
  bool read_request(Connection& connection);
  bool write_response(Connection& connection);
  std::string respond(const std::string& request);

  const UniqueFd listening_;
  const UniqueFd stop_;
  const std::function<HttpResponse(const std::string&)> answer_;
  const uint64_t patience_ns_;
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace farpage
