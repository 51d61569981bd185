#include "base/stderr.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"

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

// Standard error, so that no write to it waits, even when another process fills it between poll()
// and write(). O_NONBLOCK of the descriptor itself would be that of all who share it, so that a
// pipe or a terminal is opened once more; what cannot be (it is another user's) is written to as it
// is.
class OwnStderr {
 public:
  OwnStderr() {
    struct stat status = {};
    if (::fstat(STDERR_FILENO, &status) != 0) return;
    is_socket_ = S_ISSOCK(status.st_mode);
    if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return;
    again_.reset(::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
  ssize_t write(std::string_view part) const {
    if (is_socket_) {
      return ::send(STDERR_FILENO, part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return ::write(again_.valid() ? again_.get() : STDERR_FILENO, part.data(), part.size());
  }

 private:
  bool is_socket_ = false;
  UniqueFd again_;
};

bool write_all(std::string_view text, int patience_ms) {
  const NoWriteSignals no_signals;
  const OwnStderr own;
  uint64_t deadline_ns = 0;
  for (bool goes_on = true; !text.empty();) {
    const uint64_t now = boottime_clock().now_ns();
    if (std::exchange(goes_on, false)) {
      deadline_ns = now + static_cast<uint64_t>(patience_ms) * kMillisecond;
    }
    pollfd writable = {STDERR_FILENO, POLLOUT, 0};
    const uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 0;
    const int ready = ::poll(&writable, 1, static_cast<int>(left_ns / kMillisecond));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = own.write(text.substr(0, PIPE_BUF));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && left_ns > 0) {
      // A terminal with little room says that it is writable.
      const timespec pause = {0, kMillisecond};
      ::nanosleep(&pause, nullptr);
      continue;
    }
    if (count < 0 && errno == EPIPE) no_signals.take(SIGPIPE);
    if (count < 0 && errno == EFBIG) no_signals.take(SIGXFSZ);
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
    goes_on = true;
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
