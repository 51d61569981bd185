#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/clock.h"
#include "net/security/greeting.h"
#include "net/stream/stream.h"

namespace farpage {

inline uint64_t soon(uint64_t in_ns = 20 * kSecond) {
  return boottime_clock().now_ns() + in_ns;
}

// Two connected sockets.
inline std::pair<UniqueFd, UniqueFd> socket_pair() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Runs a node's part to its end, or as far as the deadline lets it.
inline HandshakeServer::State receive(HandshakeServer& handshake, Stream& stream,
                                      uint64_t deadline_ns) {
  while (true) {
    const HandshakeServer::State state = handshake.advance(stream);
    if (state != HandshakeServer::State::kReading) return state;
    if (!wait_for(stream.fd(), handshake.events(), deadline_ns)) return state;
  }
}

inline void expect_says(const Error& error, const std::string& part) {
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
}

}  // namespace farpage
