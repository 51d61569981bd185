#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "control/unix_connection.h"
#include "control/unix_path.h"
#include "control/unix_socket.h"

namespace farpage {
namespace asio = boost::asio;
namespace {

using Protocol = asio::local::stream_protocol;

constexpr auto kAcceptRetry = std::chrono::milliseconds(100);
constexpr auto kLockPause = std::chrono::milliseconds(10);
constexpr int kLockAttempts = 200;

// Everything but the constructor runs on the runtime.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(Protocol::acceptor acceptor, ControlService& service)
      : acceptor_(std::move(acceptor)), retry_(acceptor_.get_executor()), service_(&service) {}

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](const auto& error, Protocol::socket socket) {
      if (self->service_ == nullptr || error == asio::error::operation_aborted) return;
      if (error) {  // out of descriptors, say: those who wait are served when some are free again
        log_warning("cannot accept a client: " + error.message());
        self->retry_.expires_after(kAcceptRetry);
        self->retry_.async_wait([self](const auto& stopped) {
          if (!stopped) self->accept();
        });
        return;
      }
      self->serve(std::move(socket));
      self->accept();
    });
  }

  void stop() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    auto connections = std::move(connections_);
    for (auto& [client, connection] : connections) {
      service_->disconnected(client);
      connection->close();
    }
    service_ = nullptr;
  }

 private:
  void serve(Protocol::socket socket) {
    auto connection = std::make_shared<UnixConnection>(std::move(socket));
    auto client = service_->connected();
    if (!client) {
      connection->send(
          encode(NumberedReply{0, Refusal{client.error().code, client.error().message}}));
      connection->close();
      return;
    }
    connections_.emplace(*client, connection);
    connection->start(
        [weak = weak_from_this(), client = *client](Frame frame) {
          if (auto self = weak.lock()) self->receive(client, std::move(frame));
        },
        [weak = weak_from_this(), client = *client](const Error& error) {
          if (auto self = weak.lock()) self->end(client, error);
        });
  }

  void receive(ClientId client, Frame frame) {
    const auto found = connections_.find(client);
    if (found == connections_.end()) return;
    const std::shared_ptr<UnixConnection> connection = found->second;  // send() may end it
    auto message = decode_request(std::move(frame));
    if (!message) {
      connection->send(
          encode(NumberedReply{0, Refusal{message.error().code, message.error().message}}));
      connection->close();
      return;
    }
    std::weak_ptr<UnixConnection> weak = connection;
    service_->handle(client, std::move(message->request), [weak, id = message->id](Reply reply) {
      if (auto connection = weak.lock()) {
        connection->send(encode(NumberedReply{id, std::move(reply)}));
      }
    });
  }

  void end(ClientId client, const Error& error) {
    if (connections_.erase(client) == 0 || service_ == nullptr) return;
    if (error.code == Code::kProtocol || error.code == Code::kExhausted) {
      log_warning("a client was cut off: " + error.message);
    }
    service_->disconnected(client);
  }

  Protocol::acceptor acceptor_;
  asio::steady_timer retry_;
  ControlService* service_;
  std::unordered_map<ClientId, std::shared_ptr<UnixConnection>> connections_;
};

// The file in the way is removed only while nobody answers behind it, and only by the one who holds
// the lock on its folder, so that two nodes that start at once cannot take each other's socket for
// a dead one.
class BindLock {
 public:
  static Result<BindLock> take(const std::string& path) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    BindLock lock;
    lock.fd_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock.fd_.valid()) {
      return fail_errno(errno,
                        fmt::format("cannot listen in the folder {}: make it first", folder));
    }
    for (int attempt = 0; ::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
      if (attempt == kLockAttempts) {
        return fail(
            Code::kUnavailable,
            fmt::format("another process keeps the folder {} locked: choose another one", folder));
      }
      std::this_thread::sleep_for(kLockPause);
    }
    return lock;
  }

 private:
  UniqueFd fd_;
};

Result<void> clear_stale_socket(AsioRuntime& runtime, const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return fail(Code::kExists,
                fmt::format("{} exists and is no socket: choose another path", path));
  }
  boost::system::error_code error;
  Protocol::socket probe(runtime.context());
  probe.open(Protocol(), error);
  probe.native_non_blocking(true, error);
  probe.connect(Protocol::endpoint(path), error);
  if (error != asio::error::connection_refused) {
    return fail(Code::kExists, fmt::format("another node listens on {}: stop it, or choose another "
                                           "path with --listen",
                                           path));
  }
  ::unlink(path.c_str());
  return {};
}

class UnixServer final : public ControlServer {
 public:
  UnixServer(AsioRuntime& runtime, std::shared_ptr<Acceptor> acceptor, std::string path,
             ino_t inode)
      : runtime_(runtime), acceptor_(std::move(acceptor)), path_(std::move(path)), inode_(inode) {}

  ~UnixServer() override {
    runtime_.run([this] { acceptor_->stop(); });
    auto lock = BindLock::take(path_);
    struct stat status;
    if (::lstat(path_.c_str(), &status) == 0 && status.st_ino == inode_) ::unlink(path_.c_str());
  }

 private:
  AsioRuntime& runtime_;
  std::shared_ptr<Acceptor> acceptor_;
  std::string path_;
  ino_t inode_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> listen_unix(AsioRuntime& runtime, const std::string& path,
                                                   ControlService& service) {
  if (auto valid = check_unix_path(path); !valid) return tl::unexpected(valid.error());
  auto lock = BindLock::take(path);
  if (!lock) return tl::unexpected(lock.error());
  if (auto cleared = clear_stale_socket(runtime, path); !cleared) {
    return tl::unexpected(cleared.error());
  }
  boost::system::error_code error;
  Protocol::acceptor acceptor(runtime.context());
  acceptor.open(Protocol(), error);
  if (!error) acceptor.bind(Protocol::endpoint(path), error);
  // Whoever may connect may store and read pages: the owner alone, until somebody widens it.
  if (!error && ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0)
    error.assign(errno, boost::system::system_category());
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  struct stat status = {};
  if (error || ::lstat(path.c_str(), &status) != 0) {
    return fail(Code::kSystem, fmt::format("cannot listen on {}: {}", path, error.message()));
  }
  auto state = std::make_shared<Acceptor>(std::move(acceptor), service);
  runtime.run([&] { state->accept(); });
  return std::make_unique<UnixServer>(runtime, std::move(state), path, status.st_ino);
}

}  // namespace farpage
