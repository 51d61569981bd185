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
constexpr size_t kMostPending = 512;

// A connection that has not introduced itself.
struct PendingConnection {
  uint64_t since_ns = 0;
  UniqueFd fd;  // until its first byte tells what it speaks
  std::unique_ptr<Stream> stream;
  TlsStream* tls_handshake = nullptr;
  std::vector<SharedToken> tenants;  // as they were when it came
  std::unique_ptr<HandshakeServer> handshake;
  std::unique_ptr<Watch> watch;  // last: it goes before what it watches
};

using PendingConnections = std::list<PendingConnection>;

}  // namespace

// All of it on the loop's thread.
class Listener::Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(AsioRuntime& loop, NodeCredentials credentials, Handlers handlers, UniqueFd fd)
      : loop_(loop),
        credentials_(std::move(credentials)),
        handlers_(std::move(handlers)),
        accepting_(std::make_shared<AcceptLoop>(
            loop, std::move(fd), [this](UniqueFd accepted) { accept(std::move(accepted)); })) {}

  void open() { accepting_->start(); }

  void close() {
    accepting_->stop();
    pending_.clear();
  }

 private:
  void accept(UniqueFd fd) {
    set_connection_options(fd.get());
    if (pending_.size() == kMostPending) pending_.pop_front();
    PendingConnections::iterator connection = pending_.emplace(pending_.end());
    connection->fd = std::move(fd);
    connection->since_ns = loop_.clock().now_ns();
    connection->watch = loop_.watch(connection->fd.get());
    if (!timer_runs_) drop_after(kIntroductionNs);
    advance(connection);
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
    while (!pending_.empty() && now - pending_.front().since_ns >= kIntroductionNs) {
      pending_.pop_front();
    }
    if (!pending_.empty()) drop_after(pending_.front().since_ns + kIntroductionNs - now);
  }

  void wait(PendingConnections::iterator connection, short events) {
    auto again = [this, connection] { advance(connection); };
    if (events == POLLOUT) return connection->watch->when_writable(std::move(again));
    connection->watch->when_readable(std::move(again));
  }

  void advance(PendingConnections::iterator connection) {
    if (connection->stream == nullptr && !choose_stream(connection)) return;
    if (connection->tls_handshake != nullptr) {
      const Transfer step = connection->tls_handshake->handshake();
      if (step.state == StreamState::kWouldBlock) return wait(connection, step.events);
      if (step.state == StreamState::kEnded) {
        warnings_.warn("refused a connection: " + connection->tls_handshake->failure());
        return drop(connection);
      }
      connection->tls_handshake = nullptr;
    }
    if (connection->handshake == nullptr) {
      for (const auto& tenant : credentials_.tenants) connection->tenants.push_back(tenant.value());
      connection->handshake =
          std::make_unique<HandshakeServer>(credentials_.token.value(), connection->tenants);
    }
    switch (connection->handshake->advance(*connection->stream)) {
      case HandshakeServer::State::kReading:
        return wait(connection, connection->handshake->events());
      case HandshakeServer::State::kRefused:
        warnings_.warn("refused a connection: " + connection->handshake->refusal());
        return drop(connection);
      case HandshakeServer::State::kAccepted:
        break;
    }
    const Introduction introduction = connection->handshake->introduction();
    connection->watch.reset();
    std::unique_ptr<Stream> stream = std::move(connection->stream);
    drop(connection);
    (introduction.kind == ConnectionKind::kControl ? handlers_.control : handlers_.data)(
        std::move(stream), introduction);
  }

  // By the first byte. False: it has not come yet, or will not.
  bool choose_stream(PendingConnections::iterator connection) {
    std::byte first = {};
    const ssize_t got = ::recv(connection->fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait(connection, POLLIN);
      return false;
    }
    if (got != 1) {
      drop(connection);
      return false;
    }
    const std::shared_ptr<TlsContext> tls = credentials_.tls.get();
    if (tls == nullptr) {
      connection->stream = std::make_unique<PlainStream>(std::move(connection->fd));
      return true;
    }
    if (!looks_like_tls(first)) {
      const std::string refusal =
          encode_refusal(Code::kDenied, "it speaks only TLS: set security.tls = true");
      (void)::send(connection->fd.get(), refusal.data(), refusal.size(),
                   MSG_NOSIGNAL | MSG_DONTWAIT);
      // Its bytes must be read, or the close would overtake the refusal.
      std::array<std::byte, 256> rest;
      (void)::recv(connection->fd.get(), rest.data(), rest.size(), MSG_DONTWAIT);
      warnings_.warn("refused a connection: it does not speak TLS");
      drop(connection);
      return false;
    }
    auto secured = TlsStream::accept(*tls, std::move(connection->fd));
    if (!secured) {
      warnings_.warn(secured.error().message);
      drop(connection);
      return false;
    }
    connection->tls_handshake = secured->get();
    connection->stream = std::move(*secured);
    return true;
  }

  void drop(PendingConnections::iterator connection) { pending_.erase(connection); }

  AsioRuntime& loop_;
  NodeCredentials credentials_;
  Handlers handlers_;
  const std::shared_ptr<AcceptLoop> accepting_;
  PendingConnections pending_;
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
      acceptor_(std::make_shared<Acceptor>(loop_, std::move(credentials), std::move(handlers),
                                           std::move(socket.fd))) {
  loop_.run([this] { acceptor_->open(); });
}

Listener::~Listener() {
  loop_.run([this] { acceptor_->close(); });
}

}  // namespace farpage
