#include "base/stderr.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <string>

namespace farpage {
namespace {

constexpr int kPatienceMs = 100;

// A reader that has gone (SIGPIPE), or a limit on the file's size (SIGXFSZ), is an error of write()
// and no signal, whatever this process does with those signals: it may be an engine.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigaddset(&signals_, SIGXFSZ);
    sigpending(&pending_);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;
  ~NoWriteSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // Takes back the one that a failed write has sent to this thread.
  void take(int number) const {
    if (sigismember(&pending_, number) == 1) return;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    const timespec now = {};
    while (::sigtimedwait(&one, nullptr, &now) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t signals_ = {};
  sigset_t pending_ = {};
  sigset_t before_ = {};
};

// A write of at most PIPE_BUF to what poll() says is writable does not wait.
bool write_all(std::string_view text, int patience_ms) {
  const NoWriteSignals no_signals;
  while (!text.empty()) {
    pollfd writable = {STDERR_FILENO, POLLOUT, 0};
    const int ready = ::poll(&writable, 1, patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const size_t part = std::min<size_t>(text.size(), PIPE_BUF);
    const ssize_t count = ::write(STDERR_FILENO, text.data(), part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) no_signals.take(SIGPIPE);
    if (count < 0 && errno == EFBIG) no_signals.take(SIGXFSZ);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

void write_stderr(std::string_view text) {
  static std::mutex mutex;
  static uint64_t lost = 0;
  const std::lock_guard lock(mutex);
  const int error_number = errno;
  std::string with_lost;
  if (lost > 0) {
    // Half of one may stand there, without an end.
    with_lost =
        fmt::format("\nfarpage: {} messages before this one could not be written\n{}", lost, text);
  }
  // Do not wait again for a reader that has not read for so long, until it reads.
  const bool written = write_all(lost > 0 ? with_lost : text, lost > 0 ? 0 : kPatienceMs);
  lost = written ? 0 : lost + 1;
  errno = error_number;
}

}  // namespace farpage
