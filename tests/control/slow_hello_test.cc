// A client whose hello the node is still answering is not silent.
#include <gtest/gtest.h>

#include <atomic>

#include "control/unix_socket.h"
#include "tests/control/raw_peer.h"
#include "tests/support/temp_dir.h"

namespace farpage {
namespace {

constexpr uint64_t kSilenceNs = kSecond;

// Answers a hello when it is told to.
class SlowService final : public ControlService {
 public:
  explicit SlowService(AsioRuntime& runtime) : runtime_(runtime) {}

  Result<ClientId> connected() override { return ++last_; }
  void handle(ClientId client, Request request, std::function<void(Reply)> done) override {
    ASSERT_TRUE(std::holds_alternative<HelloRequest>(request));
    client_ = client;
    done_ = std::move(done);
    ++hellos_;
    runtime_.notify();
  }
  void disconnected(ClientId client) override {
    if (client == client_) done_ = nullptr;
  }
  void answer() {
    runtime_.run([this] {
      if (done_ != nullptr) std::exchange(done_, nullptr)(HelloReply{});
    });
  }
  int hellos() const { return hellos_; }

 private:
  AsioRuntime& runtime_;
  ClientId last_ = 0;
  ClientId client_ = 0;
  std::function<void(Reply)> done_;
  std::atomic<int> hellos_ = 0;
};

// The stranger, who came later and says nothing, is the clock: when it is cut off, the client would
// be too. A machine that is busy may make the client's hello too late, so it tries again.
TEST(SlowHello, ClientWhoseHelloIsBeingAnsweredIsKept) {
  const TempDir dir;
  AsioRuntime runtime;
  SlowService service(runtime);
  ControlLimits limits;
  limits.silence_ns = kSilenceNs;
  const auto server = listen_unix(runtime, dir / "node.sock", service, limits).value();
  bool kept = false;
  for (int i = 0; i < 10 && !kept; ++i) {
    RawPeer client = RawPeer::connect(dir / "node.sock");
    RawPeer stranger = RawPeer::connect(dir / "node.sock");
    runtime.wait_until(runtime.clock().now_ns() + kSilenceNs / 2, [] { return false; });
    client.send(raw_request(1, HelloRequest{}));
    EXPECT_EQ(stranger.refusal().code, Code::kTimeout);
    service.answer();
    const auto reply = client.receive();
    kept = reply && std::holds_alternative<HelloReply>(reply->reply);
  }
  EXPECT_TRUE(kept);
}

// It is no way to keep a place without ever being let in.
TEST(SlowHello, SecondHelloDoesNotKeepAClient) {
  const TempDir dir;
  AsioRuntime runtime;
  SlowService service(runtime);
  ControlLimits limits;
  limits.silence_ns = kSilenceNs;
  const auto server = listen_unix(runtime, dir / "node.sock", service, limits).value();
  RawPeer client = RawPeer::connect(dir / "node.sock");
  const uint64_t began = runtime.clock().now_ns();
  uint64_t id = 0;
  int said = 0;
  while (runtime.clock().now_ns() < began + 20 * kSecond) {
    const std::string hello = raw_request(++id, HelloRequest{});
    if (client.send(hello) < hello.size()) break;
    if (!runtime.wait_until(runtime.clock().now_ns() + kSilenceNs,
                            [&] { return service.hellos() > said; })) {
      break;
    }
    said = service.hellos();
    runtime.wait_until(runtime.clock().now_ns() + kSilenceNs / 8, [] { return false; });
  }
  EXPECT_LT(runtime.clock().now_ns(), began + 20 * kSecond);
  EXPECT_GT(said, 1);
}

}  // namespace
}  // namespace farpage
