#pragma once

#include <string_view>

namespace farpage {

// Writes to standard error what a person is to read. Text that cannot be written (its disk is full,
// its reader has gone, it is closed) is lost, and the next text that can be written says so:
// nothing is thrown, no signal ends the process, and a reader that does not read delays it by a
// tenth of a second, once (or until it reads, if another process fills the pipe at the same
// instant). From any thread.
void write_stderr(std::string_view text);

}  // namespace farpage
