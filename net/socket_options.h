#pragma once

namespace farpage {

// Options of every connection of ours: no delay for small messages, and an end to peers that have
// vanished without a word, so that their memory is freed. Deadlines do not depend on it.
void set_connection_options(int fd);

}  // namespace farpage
