#pragma once

namespace farpage {

// Before anything else is opened: descriptors 0, 1 and 2 that are closed lead to nowhere from now
// on, so that no socket and no pool gets the number that messages are written to; reading 0 and
// writing 1 goes on failing. And what cannot be written, because its reader has gone (SIGPIPE) or
// its file may not grow (SIGXFSZ), is an error of write(), which ends no process.
void make_streams_safe();

// For a program that this one becomes: it expects the signals as the system has them.
void restore_stream_signals();

}  // namespace farpage
