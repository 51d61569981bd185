#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>
#include <vector>

namespace farpage {
namespace {

constexpr int kPollMs = 1;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void set_no_delay(int fd) {
  constexpr int kOn = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
}

}  // namespace

TcpProxy::TcpProxy(const Address& node)
    : node_(node), listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in bound = loopback(0);
  socklen_t bytes = sizeof bound;
  EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&bound), sizeof bound), 0);
  EXPECT_EQ(::listen(listening_.get(), SOMAXCONN), 0);
  EXPECT_EQ(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&bound), &bytes), 0);
  address_.host = "127.0.0.1";
  address_.port = ntohs(bound.sin_port);
  thread_ = std::thread([this] { run(); });
}

TcpProxy::~TcpProxy() {
  stopped_ = true;
  thread_.join();
}

void TcpProxy::accept() {
  Pair pair;
  pair.client.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  pair.node.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in node = loopback(node_.port);
  if (::connect(pair.node.get(), reinterpret_cast<const sockaddr*>(&node), sizeof node) != 0) {
    return;
  }
  set_no_delay(pair.client.get());
  set_no_delay(pair.node.get());
  ++connections_;
  pairs_.push_back(std::move(pair));
}

// False: one end has closed.
bool TcpProxy::forward(int from, int to, bool from_node) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t got = ::recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got <= 0) return false;
  if (from_node) from_node_ += static_cast<uint64_t>(got);
  for (ssize_t sent = 0; sent < got;) {
    if (stopped_) return false;
    const ssize_t part = ::send(to, buffer.data() + sent, static_cast<size_t>(got - sent),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (part > 0) {
      sent += part;
      continue;
    }
    pollfd room = {to, POLLOUT, 0};
    if (errno != EAGAIN || ::poll(&room, 1, 5'000) != 1) return false;
  }
  return true;
}

void TcpProxy::run() {
  int cuts = 0;
  while (!stopped_) {
    if (cuts != cuts_ || from_node_ >= cut_at_) {
      cuts = cuts_;
      cut_at_ = UINT64_MAX;
      pairs_.clear();
    }
    std::vector<pollfd> waits = {{listening_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      const short events = held_ ? 0 : POLLIN;
      waits.push_back({pair.client.get(), events, 0});
      waits.push_back({pair.node.get(), events, 0});
    }
    ::poll(waits.data(), waits.size(), kPollMs);
    size_t at = 1;
    const bool held = held_;
    for (auto pair = pairs_.begin(); pair != pairs_.end(); at += 2) {
      const auto ready = [&](size_t index) {
        return (waits[index].revents & (POLLIN | POLLHUP)) != 0;
      };
      bool alive = true;
      if (!held && ready(at)) alive = forward(pair->client.get(), pair->node.get(), false);
      if (!held && alive && ready(at + 1))
        alive = forward(pair->node.get(), pair->client.get(), true);
      pair = alive ? std::next(pair) : pairs_.erase(pair);
    }
    if (waits[0].revents != 0) accept();
  }
}

}  // namespace farpage
