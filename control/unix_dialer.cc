#include <fmt/format.h>
#include <sys/un.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <unordered_map>

#include "control/unix_connection.h"
#include "control/unix_path.h"
#include "control/unix_socket.h"

namespace farpage {
namespace asio = boost::asio;
namespace {

// Everything but call() runs on the runtime.
class LinkState : public std::enable_shared_from_this<LinkState> {
 public:
  explicit LinkState(UnixConnection::Socket socket)
      : connection_(std::make_shared<UnixConnection>(std::move(socket))) {}

  void start() {
    connection_->start(
        [weak = weak_from_this()](Frame frame) {
          if (auto self = weak.lock()) self->receive(std::move(frame));
        },
        [weak = weak_from_this()](Error error) {
          if (auto self = weak.lock()) self->lose(std::move(error));
        });
  }

  void call(Request request, ReplyCallback done) {
    if (lost_) return done(tl::unexpected(*lost_));
    const uint64_t id = ++last_id_;
    waiting_.emplace(id, std::move(done));
    connection_->send(encode(NumberedRequest{id, std::move(request)}));
  }

  void close() { connection_->close(); }

 private:
  void receive(Frame frame) {
    auto message = decode_reply(std::move(frame));
    if (!message) {
      lose(message.error());
      connection_->close();
      return;
    }
    const auto found = waiting_.find(message->id);
    if (found == waiting_.end()) {
      // A refusal that answers no request is about the connection: too many clients, say.
      if (auto* refusal = std::get_if<Refusal>(&message->reply)) {
        lose({refusal->code, refusal->message});
      }
      return;
    }
    ReplyCallback done = std::move(found->second);
    waiting_.erase(found);
    done(std::move(message->reply));
  }

  void lose(Error error) {
    if (lost_) return;
    lost_ = std::move(error);
    auto waiting = std::move(waiting_);
    waiting_.clear();
    for (auto& [id, done] : waiting) done(tl::unexpected(*lost_));
  }

  std::shared_ptr<UnixConnection> connection_;
  std::unordered_map<uint64_t, ReplyCallback> waiting_;
  std::optional<Error> lost_;
  uint64_t last_id_ = 0;
};

class UnixLink final : public ControlLink {
 public:
  UnixLink(AsioRuntime& runtime, std::shared_ptr<LinkState> state)
      : runtime_(runtime), state_(std::move(state)) {}
  ~UnixLink() override {
    asio::dispatch(runtime_.context(), [state = state_] { state->close(); });
  }

  void call(Request request, ReplyCallback done) override {
    // std::function needs a copyable callable; a request with descriptors never travels this way.
    asio::dispatch(runtime_.context(), [state = state_, request = std::move(request),
                                        done = std::move(done)]() mutable {
      state->call(std::move(request), std::move(done));
    });
  }

 private:
  AsioRuntime& runtime_;
  std::shared_ptr<LinkState> state_;
};

class UnixDialer final : public ControlDialer {
 public:
  UnixDialer(AsioRuntime& runtime, std::string path) : runtime_(runtime), path_(std::move(path)) {}

  void dial(DialCallback done) override {
    asio::post(runtime_.context(), [&runtime = runtime_, path = path_, done = std::move(done)] {
      UnixConnection::Socket socket(runtime.context());
      boost::system::error_code error;
      // A Unix connect ends at once, or waits for a backlog that is full; it must not wait here.
      socket.open(asio::local::stream_protocol(), error);
      socket.native_non_blocking(true, error);
      socket.connect(asio::local::stream_protocol::endpoint(path), error);
      if (error) {
        return done(fail(Code::kUnavailable,
                         fmt::format("no memory node answers at {} ({}): start one with 'farpage "
                                     "node --listen {}'",
                                     path, error.message(), path)));
      }
      auto state = std::make_shared<LinkState>(std::move(socket));
      state->start();
      done(std::make_shared<UnixLink>(runtime, std::move(state)));
    });
  }

 private:
  AsioRuntime& runtime_;
  std::string path_;
};

}  // namespace

Result<void> check_unix_path(const std::string& path) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty()) return fail(Code::kInvalid, "a Unix socket needs a path");
  if (path.size() > kLongest) {
    return fail(Code::kInvalid,
                fmt::format("the socket path '{}' has {} bytes, and a Unix socket takes {}: choose "
                            "a shorter one",
                            path, path.size(), kLongest));
  }
  return {};
}

Result<std::unique_ptr<ControlDialer>> make_unix_dialer(AsioRuntime& runtime,
                                                        const std::string& path) {
  if (auto valid = check_unix_path(path); !valid) return tl::unexpected(valid.error());
  return std::make_unique<UnixDialer>(runtime, path);
}

}  // namespace farpage
