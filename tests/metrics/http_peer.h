#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/unique_fd.h"

namespace farpage {

// The other end of an HTTP connection, which says what the test tells it to.
class HttpPeer {
 public:
  // `url` as MetricsServer tells it.
  explicit HttpPeer(const std::string& url) {
    const size_t begin = std::string("http://").size();
    const std::string address = url.substr(begin, url.find('/', begin) - begin);
    const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    if (address.starts_with('[')) {
      sockaddr_in6 to = {};
      to.sin6_family = AF_INET6;
      to.sin6_port = htons(port);
      to.sin6_addr = in6addr_loopback;
      connect(to);
    } else {
      sockaddr_in to = {};
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      connect(to);
    }
  }

  void say(const std::string& text) {
    EXPECT_EQ(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  // The server may be gone.
  void try_say(const std::string& text) {
    (void)::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  // Within a time; what the server says is not heard.
  bool is_closed(int in_ms) {
    pollfd readable = {fd_.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&readable, 1, in_ms) > 0 && ::recv(fd_.get(), &byte, 1, 0) <= 0;
  }

  // All that comes until the server closes.
  std::string hear() {
    std::string text;
    std::array<char, 4096> part;
    while (true) {
      pollfd readable = {fd_.get(), POLLIN, 0};
      if (::poll(&readable, 1, 20'000) == 0) {
        ADD_FAILURE() << "the server neither answers nor closes";
        return text;
      }
      const ssize_t count = ::recv(fd_.get(), part.data(), part.size(), 0);
      if (count <= 0) return text;
      text.append(part.data(), static_cast<size_t>(count));
    }
  }

  static std::string get(const std::string& url, const std::string& path = "/metrics") {
    HttpPeer peer(url);
    peer.say("GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n");
    return peer.hear();
  }

 private:
  template <typename Address>
  void connect(const Address& to) {
    fd_.reset(
        ::socket(reinterpret_cast<const sockaddr&>(to).sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << errno;
  }

  UniqueFd fd_;
};

}  // namespace farpage
