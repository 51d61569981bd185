#include "metrics/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace farpage {
namespace {

constexpr size_t kMostConnections = 128;
constexpr size_t kMostRequestBytes = 16'384;
constexpr int kLookMs = 500;  // at who is too slow

const char* phrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Bad Request";
  }
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(
    UniqueFd listening, std::function<HttpResponse(const std::string&)> answer,
    uint64_t patience_ns) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return fail_errno(errno, "cannot serve HTTP: eventfd");
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(listening), std::move(stop), std::move(answer), patience_ns));
}

HttpServer::HttpServer(UniqueFd listening, UniqueFd stop,
                       std::function<HttpResponse(const std::string&)> answer, uint64_t patience_ns)
    : listening_(std::move(listening)),
      stop_(std::move(stop)),
      answer_(std::move(answer)),
      patience_ns_(patience_ns),
      thread_([this] { serve(); }) {}

HttpServer::~HttpServer() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HttpServer::serve() {
  std::vector<pollfd> waits;
  bool accepts = true;  // false for one turn when there is no descriptor left, say
  while (true) {
    waits = {{stop_.get(), POLLIN, 0},
             {listening_.get(), static_cast<short>(accepts ? POLLIN : 0), 0}};
    for (const Connection& connection : connections_) {
      const short wanted = connection.response.empty() ? POLLIN : POLLOUT;
      waits.push_back({connection.fd.get(), wanted, 0});
    }
    ::poll(waits.data(), waits.size(), accepts && connections_.empty() ? -1 : kLookMs);
    if (waits[0].revents != 0) return;
    const uint64_t now = boottime_clock().now_ns();
    size_t at = 2;
    std::erase_if(connections_, [&](Connection& connection) {
      const bool is_ready = waits[at++].revents != 0;
      return (is_ready && !advance(connection)) || now >= connection.deadline_ns;
    });
    accepts = waits[1].revents == 0 || accept();
  }
}

bool HttpServer::accept() {
  UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) return would_block() || errno == ECONNABORTED;
  // A reader that is served in good time has gone long before it is the oldest of so many.
  if (connections_.size() == kMostConnections) {
    connections_.erase(std::ranges::min_element(connections_, {}, &Connection::deadline_ns));
  }
  connections_.push_back({std::move(fd), boottime_clock().now_ns() + patience_ns_, {}, {}, 0});
  return true;
}

bool HttpServer::advance(Connection& connection) {
  return connection.response.empty() ? read_request(connection) : write_response(connection);
}

bool HttpServer::read_request(Connection& connection) {
  std::array<char, 4096> part;
  const ssize_t count = ::recv(connection.fd.get(), part.data(), part.size(), 0);
  if (count < 0) return would_block();
  if (count == 0) return false;
  connection.request.append(part.data(), static_cast<size_t>(count));
  if (connection.request.find("\r\n\r\n") == std::string::npos) {
    return connection.request.size() <= kMostRequestBytes;
  }
  connection.response = respond(connection.request);
  connection.deadline_ns = boottime_clock().now_ns() + patience_ns_;
  return write_response(connection);
}

bool HttpServer::write_response(Connection& connection) {
  while (connection.sent < connection.response.size()) {
    const ssize_t count = ::send(connection.fd.get(), connection.response.data() + connection.sent,
                                 connection.response.size() - connection.sent, MSG_NOSIGNAL);
    if (count < 0) return would_block();
    connection.sent += static_cast<size_t>(count);
  }
  return false;
}

std::string HttpServer::respond(const std::string& request) {
  const std::string line = request.substr(0, request.find("\r\n"));
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first == std::string::npos ? first : first + 1);
  HttpResponse response = {400, "text/plain", "this is no HTTP request\n"};
  if (second != std::string::npos && line.compare(second + 1, 5, "HTTP/") == 0) {
    const std::string target = line.substr(first + 1, second - first - 1);
    response = line.starts_with("GET ")
                   ? answer_(target.substr(0, target.find('?')))
                   : HttpResponse{405, "text/plain", "GET is all that is answered here\n"};
  }
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      response.code, phrase(response.code), response.type, response.body.size(), response.body);
}

}  // namespace farpage
