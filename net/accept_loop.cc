#include "net/accept_loop.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kRetryNs = 100 * kMillisecond;
constexpr int kMostAccepts = 64;  // before others have their turn

}  // namespace

AcceptLoop::AcceptLoop(AsioRuntime& loop, UniqueFd listening, Handler accepted)
    : loop_(loop), listening_(std::move(listening)), accepted_(std::move(accepted)) {}

void AcceptLoop::start() {
  watch_ = loop_.watch(listening_.get());
  await();
}

void AcceptLoop::stop() {
  watch_.reset();
  listening_.reset();
}

void AcceptLoop::await() {
  watch_->when_readable([this] { accept(); });
}

void AcceptLoop::accept() {
  for (int i = 0; i < kMostAccepts; ++i) {
    UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      accepted_(std::move(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) break;
    const Error why = fail_errno(errno, "cannot accept a connection").value();
    warnings_.warn(why.message);
    loop_.note_shortage(why);
    return loop_.after(kRetryNs, [weak = weak_from_this()] {
      auto self = weak.lock();
      if (self != nullptr && self->watch_ != nullptr) self->accept();
    });
  }
  await();
}

}  // namespace farpage
