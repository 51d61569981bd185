#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "net/address/address.h"

namespace farpage {

// A port of the loopback that is as a dead host to whoever dials it: its queue of connections that
// nobody accepts is full, and the kernel drops what else comes.
class SilentPort {
 public:
  SilentPort() {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listening_.get(), 0), 0);
    socklen_t bytes = sizeof at;
    EXPECT_EQ(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    EXPECT_EQ(::connect(first_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    address_ = {"", "127.0.0.1", ntohs(at.sin_port)};
  }
  const Address& address() const { return address_; }

 private:
  UniqueFd listening_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  UniqueFd first_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Address address_;
};

}  // namespace farpage
