#pragma once

namespace farpage {

// What every connection of ours sets: no delay for small messages, and an end to peers that have
// vanished without a word, so that what is kept for them is freed. Deadlines do not depend on it.
void set_connection_options(int fd);

}  // namespace farpage
