#pragma once

namespace farpage {

// Options of every connection of ours, once it is connected: no delay for small messages, and an
// end to peers that have vanished without a word, so that their memory is freed. Deadlines do not
// depend on it. Where both ends have one address, nothing on the way is congested, and the
// connection has Reno: BBR sends as fast as the peer has lately read, and keeps little under way,
// so a peer that waits for its core slows it down
// (docs/decisions/0040-large-pages-over-tcp.md).
void set_connection_options(int fd);

}  // namespace farpage
