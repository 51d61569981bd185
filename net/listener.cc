#include "net/listener.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <list>

#include "base/log.h"
#include "net/accept_loop.h"
#include "net/socket_options.h"

namespace farpage {
namespace {

constexpr uint64_t kIntroductionNs = 5 * kSecond;
constexpr size_t kMostStrangers = 512;

// A connection that has not introduced itself.
struct Stranger {
  uint64_t since_ns = 0;
  UniqueFd fd;  // until its first byte tells what it speaks
  std::unique_ptr<Stream> stream;
  TlsStream* handshaking = nullptr;
  std::vector<SharedToken> tenants;  // as they were when it came
  std::unique_ptr<Reception> reception;
  std::unique_ptr<Watch> watch;  // last: it goes before what it watches
};

using Strangers = std::list<Stranger>;

}  // namespace

// All of it on the loop's thread.
class Listener::Door : public std::enable_shared_from_this<Door> {
 public:
  Door(AsioRuntime& loop, NodeCredentials credentials, Handlers handlers, UniqueFd fd)
      : loop_(loop),
        credentials_(std::move(credentials)),
        handlers_(std::move(handlers)),
        accepting_(std::make_shared<AcceptLoop>(
            loop, std::move(fd), [this](UniqueFd accepted) { welcome(std::move(accepted)); })) {}

  void open() { accepting_->start(); }

  void close() {
    accepting_->stop();
    strangers_.clear();
  }

 private:
  void welcome(UniqueFd fd) {
    set_connection_options(fd.get());
    if (strangers_.size() == kMostStrangers) strangers_.pop_front();
    Strangers::iterator stranger = strangers_.emplace(strangers_.end());
    stranger->fd = std::move(fd);
    stranger->since_ns = loop_.clock().now_ns();
    stranger->watch = loop_.watch(stranger->fd.get());
    if (!timer_runs_) drop_after(kIntroductionNs);
    advance(stranger);
  }

  // One timer for all: they are in the order of their coming.
  void drop_after(uint64_t delay_ns) {
    timer_runs_ = true;
    loop_.after(delay_ns, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->drop_late();
    });
  }

  void drop_late() {
    timer_runs_ = false;
    const uint64_t now = loop_.clock().now_ns();
    while (!strangers_.empty() && now - strangers_.front().since_ns >= kIntroductionNs) {
      strangers_.pop_front();
    }
    if (!strangers_.empty()) drop_after(strangers_.front().since_ns + kIntroductionNs - now);
  }

  void wait(Strangers::iterator stranger, short events) {
    auto again = [this, stranger] { advance(stranger); };
    if (events == POLLOUT) return stranger->watch->when_writable(std::move(again));
    stranger->watch->when_readable(std::move(again));
  }

  void advance(Strangers::iterator stranger) {
    if (stranger->stream == nullptr && !choose_stream(stranger)) return;
    if (stranger->handshaking != nullptr) {
      const Transfer step = stranger->handshaking->handshake();
      if (step.state == StreamState::kWouldBlock) return wait(stranger, step.events);
      if (step.state == StreamState::kEnded) {
        warnings_.warn("refused a connection: " + stranger->handshaking->failure());
        return drop(stranger);
      }
      stranger->handshaking = nullptr;
    }
    if (stranger->reception == nullptr) {
      for (const auto& tenant : credentials_.tenants) stranger->tenants.push_back(tenant.value());
      stranger->reception =
          std::make_unique<Reception>(credentials_.token.value(), stranger->tenants);
    }
    switch (stranger->reception->advance(*stranger->stream)) {
      case Reception::State::kReading:
        return wait(stranger, stranger->reception->events());
      case Reception::State::kRefused:
        warnings_.warn("refused a connection: " + stranger->reception->refusal());
        return drop(stranger);
      case Reception::State::kAccepted:
        break;
    }
    const Introduction introduction = stranger->reception->introduction();
    stranger->watch.reset();
    std::unique_ptr<Stream> stream = std::move(stranger->stream);
    drop(stranger);
    (introduction.kind == ConnectionKind::kControl ? handlers_.control : handlers_.data)(
        std::move(stream), introduction);
  }

  // By the first byte. False: it has not come yet, or will not.
  bool choose_stream(Strangers::iterator stranger) {
    std::byte first = {};
    const ssize_t got = ::recv(stranger->fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait(stranger, POLLIN);
      return false;
    }
    if (got != 1) {
      drop(stranger);
      return false;
    }
    const std::shared_ptr<TlsContext> tls = credentials_.tls.get();
    if (tls == nullptr) {
      stranger->stream = std::make_unique<PlainStream>(std::move(stranger->fd));
      return true;
    }
    if (!looks_like_tls(first)) {
      const std::string refusal =
          encode_refusal(Code::kDenied, "it speaks only TLS: set security.tls = true");
      (void)::send(stranger->fd.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      // Its bytes must be read, or the close would overtake the refusal.
      std::array<std::byte, 256> rest;
      (void)::recv(stranger->fd.get(), rest.data(), rest.size(), MSG_DONTWAIT);
      warnings_.warn("refused a connection: it does not speak TLS");
      drop(stranger);
      return false;
    }
    auto secured = TlsStream::accept(*tls, std::move(stranger->fd));
    if (!secured) {
      warnings_.warn(secured.error().message);
      drop(stranger);
      return false;
    }
    stranger->handshaking = secured->get();
    stranger->stream = std::move(*secured);
    return true;
  }

  void drop(Strangers::iterator stranger) { strangers_.erase(stranger); }

  AsioRuntime& loop_;
  NodeCredentials credentials_;
  Handlers handlers_;
  const std::shared_ptr<AcceptLoop> accepting_;
  Strangers strangers_;
  WarningLimiter warnings_;
  bool timer_runs_ = false;
};

Result<std::unique_ptr<Listener>> Listener::listen(const Address& address,
                                                   NodeCredentials credentials, Handlers handlers) {
  auto socket = listen_on(address);
  if (!socket) return tl::unexpected(socket.error());
  return serve(std::move(*socket), std::move(credentials), std::move(handlers));
}

std::unique_ptr<Listener> Listener::serve(ListeningSocket socket, NodeCredentials credentials,
                                          Handlers handlers) {
  return std::unique_ptr<Listener>(
      new Listener(std::move(socket), std::move(credentials), std::move(handlers)));
}

Listener::Listener(ListeningSocket socket, NodeCredentials credentials, Handlers handlers)
    : address_(std::move(socket.address)),
      door_(std::make_shared<Door>(loop_, std::move(credentials), std::move(handlers),
                                   std::move(socket.fd))) {
  loop_.run([this] { door_->open(); });
}

Listener::~Listener() {
  loop_.run([this] { door_->close(); });
}

}  // namespace farpage
