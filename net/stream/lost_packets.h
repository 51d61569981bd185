#pragma once

#include <cstdint>
#include <string>

namespace farpage {

// What TCP knows of a connection's own sending.
struct SentBytes {
  uint64_t packet_bytes = 0;   // of the largest that it sends; headers excluded
  uint64_t acked_bytes = 0;    // since the connection began
  uint64_t waiting_bytes = 0;  // not acknowledged
  uint64_t packets_sent_again = 0;
  bool heard_later = false;  // of the peer, long enough after the last packet for its word on it
};

SentBytes sent_bytes(int socket);

// Whether it looks like a path that small messages pass and full packets do not: what has passed so
// far was shorter than one, and one waits that was sent again, or that the peer has passed over in
// silence. A link on the way has a smaller MTU
// then, and the router's word (ICMP) does not come through, so TCP never learns of it.
bool loses_full_packets(const SentBytes& sent);

// A sentence with both sizes, and what mends it.
std::string lost_full_packets(const SentBytes& sent, const std::string& peer);

// For a connection that is given up: says so in the log, if it looks like that; not with each of
// them. Any thread.
void warn_of_lost_packets(int socket);

}  // namespace farpage
