#include "cli/standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace farpage {
namespace {

constexpr std::array<int, 2> kSignals = {SIGPIPE, SIGXFSZ};

// Reads and writes of a closed one should still fail: a result that is written to nowhere is lost,
// and a trace that is read from there was never given. Messages without a reader may go.
constexpr std::array<int, 3> kModes = {O_WRONLY, O_RDONLY, O_RDWR};

}  // namespace

void make_streams_safe() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one. A host without /dev has a root folder.
    if (::open("/dev/null", kModes[static_cast<size_t>(fd)]) < 0) (void)::open("/", O_PATH);
  }
  for (const int number : kSignals) ::signal(number, SIG_IGN);
}

void restore_stream_signals() {
  for (const int number : kSignals) ::signal(number, SIG_DFL);
}

}  // namespace farpage
