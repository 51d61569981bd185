// The first byte chooses what the rest is: a request's body, a reply's body, or raw bytes on a
// node's socket or on a client's.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/check.h"
#include "control/codec.h"
#include "control/unix_socket.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

// Answers everything, so that replies of every kind go out.
class EchoService final : public ControlService {
 public:
  Result<ClientId> connected() override { return ++last_client_; }
  void handle(ClientId, Request request, std::function<void(Reply)> done) override {
    if (std::holds_alternative<CommitRequest>(request)) {
      CommitReply reply;
      reply.results.resize(std::get<CommitRequest>(request).pages.size());
      return done(std::move(reply));
    }
    if (std::holds_alternative<RemoveRequest>(request)) return done(RemoveReply{1});
    done(StatusReply{});
  }
  void disconnected(ClientId) override {}

 private:
  ClientId last_client_ = 0;
};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

UniqueFd new_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

// Says its bytes, then that there are no more, and reads until the other side is done too.
void speak(const UniqueFd& fd, const std::string& bytes) {
  const size_t half = bytes.size() / 2;
  (void)!::send(fd.get(), bytes.data(), half, MSG_NOSIGNAL);
  (void)!::send(fd.get(), bytes.data() + half, bytes.size() - half, MSG_NOSIGNAL);
  ::shutdown(fd.get(), SHUT_WR);
  std::array<char, 4096> answer;
  while (::recv(fd.get(), answer.data(), answer.size(), 0) > 0) continue;
}

class Sockets {
 public:
  Sockets() : server_(listen_unix(runtime_, dir_ / "node", service_).value()) {
    const sockaddr_un address = address_of(dir_ / "fake");
    FARPAGE_CHECK(
        ::bind(fake_node_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    FARPAGE_CHECK(::listen(fake_node_.get(), 1) == 0);
    dialer_ = make_unix_dialer(runtime_, dir_ / "fake").value();
  }

  void attack_node(const std::string& bytes) {
    const UniqueFd fd = new_socket();
    const sockaddr_un address = address_of(dir_ / "node");
    FARPAGE_CHECK(
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    speak(fd, bytes);
  }

  // Each of three calls must end, whatever the node says.
  void attack_client(const std::string& bytes) {
    std::atomic<int> ended = 0;
    std::shared_ptr<ControlLink> link;
    dialer_->dial([&](Result<std::shared_ptr<ControlLink>> result) {
      link = std::move(result).value();
      for (int i = 0; i < 3; ++i) {
        link->call(StatusRequest{}, [&](const Result<Reply>&) {
          ++ended;
          runtime_.notify();
        });
      }
    });
    {
      const UniqueFd fd(::accept4(fake_node_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)!::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    FARPAGE_CHECK(
        runtime_.wait_until(runtime_.clock().now_ns() + 30 * kSecond, [&] { return ended == 3; }));
    runtime_.run([&] { link.reset(); });
  }

 private:
  TempDir dir_;
  EchoService service_;
  AsioRuntime runtime_;
  std::unique_ptr<ControlServer> server_;
  UniqueFd fake_node_ = new_socket();
  std::unique_ptr<ControlDialer> dialer_;
};

}  // namespace
}  // namespace farpage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  static Sockets sockets;
  if (bytes == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  switch (data[0] % 4) {
    case 0:
      // Bytes that are taken for a request can be sent again.
      if (auto request = decode_request(Frame{body, {}})) {
        FARPAGE_CHECK(decode_request(encode(std::move(*request))).has_value());
      }
      break;
    case 1:
      if (auto reply = decode_reply(Frame{body, {}})) {
        FARPAGE_CHECK(decode_reply(encode(std::move(*reply))).has_value());
      }
      break;
    case 2:
      sockets.attack_node(body);
      break;
    default:
      sockets.attack_client(body);
  }
  return 0;
}
