#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "net/dial.h"
#include "net/listener.h"
#include "tests/net/pair.h"

namespace farpage {

// A listener on the loopback that keeps whom it lets in.
class OpenPort {
 public:
  explicit OpenPort(const NodeCredentials& credentials = {},
                    const std::string& address = "tcp://127.0.0.1:0")
      : listener_(Listener::listen(
                      parse_address(address).value(), credentials,
                      {[this](auto stream, const auto& who) { keep(std::move(stream), who); },
                       [this](auto stream, const auto& who) { keep(std::move(stream), who); }})
                      .value()) {}
  ~OpenPort() { listener_.reset(); }

  const Address& address() const { return listener_->address(); }
  void close() { listener_.reset(); }

  Result<std::unique_ptr<Stream>> dial(const ClientCredentials& credentials = {},
                                       const Introduction& introduction = {},
                                       uint64_t in_ns = 20 * kSecond) {
    return farpage::dial(address(), credentials, introduction, soon(in_ns));
  }
  // A connection that says nothing of its own.
  UniqueFd connect() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(address().port);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fd.reset();
    return fd;
  }

  // Accepted connections, in order of arrival.
  std::pair<std::unique_ptr<Stream>, Introduction> guest() {
    runtime_.wait_until(soon(), [this] { return count() > 0; });
    std::lock_guard lock(mutex_);
    if (guests_.empty()) return {};
    auto first = std::move(guests_.front());
    guests_.pop_front();
    return first;
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return guests_.size();
  }

 private:
  void keep(std::unique_ptr<Stream> stream, const Introduction& introduction) {
    {
      std::lock_guard lock(mutex_);
      guests_.emplace_back(std::move(stream), introduction);
    }
    runtime_.notify();
  }

  std::mutex mutex_;
  std::list<std::pair<std::unique_ptr<Stream>, Introduction>> guests_;
  AsioRuntime runtime_;
  std::unique_ptr<Listener> listener_;
};

// Whether the peer closes within a time.
inline bool ends(const UniqueFd& fd, uint64_t in_ns = 20 * kSecond) {
  const uint64_t deadline = soon(in_ns);
  std::array<char, 4096> bytes;
  while (wait_for(fd.get(), POLLIN, deadline)) {
    const ssize_t got = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

}  // namespace farpage
