#include "control/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "net/address/unix_path.h"
#include "net/socket_rights.h"
#include "tests/control/served_node.h"
#include "tests/support/needs_root.h"

namespace farpage {
namespace {

void expect_says(const Error& error, const std::string& part) {
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
}

Result<std::shared_ptr<ControlLink>> dial(AsioRuntime& runtime, ControlDialer& dialer) {
  std::optional<Result<std::shared_ptr<ControlLink>>> link;
  std::atomic<bool> ended = false;
  dialer.dial([&](Result<std::shared_ptr<ControlLink>> result) {
    link = std::move(result);
    ended = true;
    runtime.notify();
  });
  EXPECT_TRUE(
      runtime.wait_until(runtime.clock().now_ns() + 20 * kSecond, [&] { return ended.load(); }));
  runtime.run([] {});
  return std::move(*link);
}

// Collects how calls end.
struct Calls {
  std::atomic<int> replies = 0;
  std::atomic<int> errors = 0;
  std::string last_error;  // read once the runtime is quiet

  ReplyCallback callback(Runtime& runtime) {
    return [this, &runtime](Result<Reply> reply) {
      if (!reply) last_error = reply.error().message;
      ++(reply ? replies : errors);
      runtime.notify();
    };
  }
  int total() const { return replies + errors; }
};

class UnixSocket : public ::testing::Test {
 protected:
  bool wait(const std::function<bool()>& ready) {
    return runtime_.wait_until(runtime_.clock().now_ns() + 20 * kSecond, ready);
  }
  std::shared_ptr<ControlLink> link_to(const std::string& path) {
    dialer_ = make_unix_dialer(runtime_, path).value();
    return dial(runtime_, *dialer_).value();
  }

  AsioRuntime runtime_;
  std::unique_ptr<ControlDialer> dialer_;
};

TEST_F(UnixSocket, CallsAreAnsweredFromManyThreads) {
  ServedNode node;
  const auto link = link_to(node.path());
  Calls calls;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) link->call(StatusRequest{}, calls.callback(runtime_));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait([&] { return calls.total() == 800; }));
  EXPECT_EQ(calls.errors, 0);
}

TEST_F(UnixSocket, LostLinkEndsEveryWaitingCallOnce) {
  auto node = std::make_unique<ServedNode>();
  const auto link = link_to(node->path());
  Calls calls;
  link->call(HelloRequest{}, calls.callback(runtime_));
  ASSERT_TRUE(wait([&] { return calls.total() == 1; }));
  // Commits that wait for an immediate which never comes.
  for (int i = 0; i < 50; ++i) {
    link->call(CommitRequest{1, 60 * kSecond, {CommitPage{}}}, calls.callback(runtime_));
  }
  ASSERT_TRUE(node->wait([&] { return node->service().handled_count() == 51; }));
  node.reset();
  EXPECT_TRUE(wait([&] { return calls.total() == 51; }));
  EXPECT_EQ(calls.errors, 50);
  link->call(StatusRequest{}, calls.callback(runtime_));
  EXPECT_TRUE(wait([&] { return calls.errors == 51; }));
  runtime_.run([] {});
  EXPECT_EQ(calls.total(), 52);
}

TEST_F(UnixSocket, DestroyedLinkEndsItsCallsToo) {
  ServedNode node;
  auto link = link_to(node.path());
  Calls calls;
  // A node refuses a commit that comes before it has answered to the hello.
  link->call(HelloRequest{}, calls.callback(runtime_));
  ASSERT_TRUE(wait([&] { return calls.replies == 1; }));
  link->call(CommitRequest{1, 60 * kSecond, {CommitPage{}}}, calls.callback(runtime_));
  link.reset();
  EXPECT_TRUE(wait([&] { return calls.errors == 1; }));
  EXPECT_TRUE(node.wait_disconnected(1));
}

TEST_F(UnixSocket, ClientTooManyLearnsWhy) {
  ServedNode node({.max_clients = 1});
  const RawPeer first = node.connect();
  ASSERT_TRUE(node.wait([&] { return node.service().connected_count() == 1; }));
  RawPeer second = node.connect();
  EXPECT_NE(second.refusal().message.find("node.max_clients"), std::string::npos);
  EXPECT_TRUE(second.closed_by_peer());
  // However late its first request is: the refusal has been there for long.
  const auto link = link_to(node.path());
  node.settle();
  Calls calls;
  link->call(HelloRequest{}, calls.callback(runtime_));
  EXPECT_TRUE(wait([&] { return calls.total() == 1; }));
  runtime_.run([] {});
  EXPECT_NE(calls.last_error.find("node.max_clients"), std::string::npos) << calls.last_error;
}

// The first request goes out when the node has refused and closed already.
TEST_F(UnixSocket, RefusalIsReadThoughTheRequestCouldNotBeSent) {
  const TempDir dir;
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = RawPeer::address_of(dir / "sock");
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  auto dialer = make_unix_dialer(runtime_, dir / "sock").value();
  Calls calls;
  std::shared_ptr<ControlLink> link;
  dialer->dial([&](Result<std::shared_ptr<ControlLink>> result) {
    // On the runtime, so that nothing is read before the call is sent.
    RawPeer peer(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    peer.send(
        raw_frame(encode(NumberedReply{0, Refusal{Code::kExhausted, "the house is full"}}).body));
    peer.close();
    link = std::move(*result);
    link->call(HelloRequest{}, calls.callback(runtime_));
  });
  EXPECT_TRUE(wait([&] { return calls.total() == 1; }));
  runtime_.run([] {});
  EXPECT_EQ(calls.last_error, "the house is full");
}

TEST_F(UnixSocket, ServerThatTalksNonsenseLosesTheLink) {
  for (const std::string& nonsense :
       {std::string(100, 'x'), raw_frame("\x07"), raw_frame("", 1 << 30), raw_frame("ab", 3)}) {
    const TempDir dir;
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = RawPeer::address_of(dir / "sock");
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    const auto link = link_to(dir / "sock");
    RawPeer peer(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    Calls calls;
    for (int i = 0; i < 3; ++i) link->call(StatusRequest{}, calls.callback(runtime_));
    peer.send(nonsense);
    peer.shut_writing();
    EXPECT_TRUE(wait([&] { return calls.errors == 3; }));
  }
}

TEST_F(UnixSocket, DialingNobodySaysWhatToStart) {
  const TempDir dir;
  for (const std::string& path : {dir / "nobody.sock", dir / "no/folder.sock"}) {
    auto dialer = make_unix_dialer(runtime_, path).value();
    const auto link = dial(runtime_, *dialer);
    ASSERT_FALSE(link.has_value());
    EXPECT_EQ(link.error().code, Code::kUnavailable);
    expect_says(link.error(), "farpage node --listen " + path);
  }
}

TEST_F(UnixSocket, SecondServerOnOnePathIsRefused) {
  ServedNode node;
  const auto second = listen_unix(runtime_, node.path(), node.service());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kExists);
  expect_says(second.error(), "another node listens on " + node.path());
  RawPeer peer = node.connect();
  peer.send(raw_request(1, StatusRequest{}));
  EXPECT_TRUE(peer.receive().has_value()) << "the first one serves on";
}

TEST_F(UnixSocket, FileIsRemovedAtTheEnd) {
  ServedNode node;
  EXPECT_TRUE(std::filesystem::is_socket(node.path()));
  node.stop();
  EXPECT_FALSE(std::filesystem::exists(node.path()));
}

TEST_F(UnixSocket, FileOfAnotherIsLeftAtTheEnd) {
  ServedNode node;
  std::filesystem::remove(node.path());
  std::ofstream(node.path()) << "mine";
  node.stop();
  EXPECT_TRUE(std::filesystem::exists(node.path()));
}

TEST_F(UnixSocket, StaleSocketIsTakenOver) {
  ServedNode node;
  const std::string stale = node.dir() / "stale.sock";
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = RawPeer::address_of(stale);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_TRUE(std::filesystem::is_socket(stale));
  const auto server = listen_unix(node.runtime(), stale, node.service());
  ASSERT_TRUE(server.has_value()) << server.error().message;
  RawPeer peer = RawPeer::connect(stale);
  peer.send(raw_request(1, StatusRequest{}));
  EXPECT_TRUE(peer.receive().has_value());
}

TEST_F(UnixSocket, HasTheRightsThatItWasGivenWhateverTheUmask) {
  const TempDir dir;
  const std::string path = dir / "s";
  const mode_t before = ::umask(0);
  for (const mode_t mode : {0600u, 0660u, 0666u}) {
    const auto socket = BoundUnixSocket::bind(path, {.mode = mode});
    ASSERT_TRUE(socket.has_value()) << socket.error().message;
    struct stat status = {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, mode);
    EXPECT_EQ(status.st_gid, ::getegid());
  }
  ::umask(before);
}

// Somebody may put it there between bind() and chmod().
TEST_F(UnixSocket, RightsAreGivenToASocketAndToNothingInItsPlace) {
  const TempDir dir;
  const std::string file = dir / "file";
  std::ofstream(file) << "text";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  std::filesystem::create_symlink(file, dir / "link");
  std::filesystem::create_hard_link(file, dir / "hard");
  const auto socket = BoundUnixSocket::bind(dir / "s", {.mode = 0600});
  ASSERT_TRUE(socket.has_value());
  std::filesystem::create_symlink(dir / "s", dir / "link to a socket");
  for (const char* name : {"link", "hard", "link to a socket", "none"}) {
    const auto given = give_socket(dir / name, {.mode = 0666});
    ASSERT_FALSE(given.has_value()) << name;
    expect_says(given.error(), "in the place of the socket");
  }
  struct stat status = {};
  for (const char* name : {"file", "s"}) {
    ASSERT_EQ(::stat((dir / name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, 0600u) << name;
  }
  EXPECT_TRUE(give_socket(dir / "s", {.mode = 0666}).has_value());
  ASSERT_EQ(::stat((dir / "s").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0666u);
}

// As another user, for whom alone rights count.
TEST_F(UnixSocket, GroupMayConnectAndOthersAreToldThatItIsAPermission) {
  if (const char* why = why_no_root()) GTEST_SKIP() << why;
  constexpr uid_t kUser = 12345;
  constexpr gid_t kGroup = 2000;
  ServedNode node;
  ASSERT_EQ(::chmod(node.dir().path().c_str(), 0755), 0);
  const std::string path = node.dir() / "group.sock";
  const auto socket = BoundUnixSocket::bind(path, {.mode = 0660, .group = kGroup});
  ASSERT_TRUE(socket.has_value()) << socket.error().message;
  const auto denied_to = [&](gid_t group) {
    int error = 0;
    EXPECT_EQ(::setresgid(group, group, 0), 0);
    EXPECT_EQ(::setresuid(kUser, kUser, 0), 0);
    const UniqueFd fd = connect_unix(path, error);
    std::string advice = advise_on_denied_socket(path);
    const auto other = BoundUnixSocket::bind(path);
    EXPECT_EQ(::setresuid(0, 0, 0), 0);
    EXPECT_EQ(::setresgid(0, 0, 0), 0);
    if (error == 0) return std::string();
    EXPECT_EQ(error, EACCES);
    EXPECT_EQ(other.error().code, Code::kDenied);
    return advice;
  };
  EXPECT_EQ(denied_to(kGroup), "");
  const std::string advice = denied_to(kUser);
  EXPECT_NE(advice.find("root:2000, mode 0660"), std::string::npos) << advice;
  EXPECT_NE(advice.find("node.socket_group"), std::string::npos) << advice;
}

TEST_F(UnixSocket, PlacesThatTakeNoSocketAreRefusedWithAReason) {
  ServedNode node;
  const auto refuse = [&](const std::string& path) {
    auto server = listen_unix(node.runtime(), path, node.service());
    EXPECT_FALSE(server.has_value()) << path;
    return server ? Error{Code::kOk, ""} : server.error();
  };
  const std::string file = node.dir() / "file";
  std::ofstream(file) << "text";
  expect_says(refuse(file), "is not a socket");
  EXPECT_EQ(std::filesystem::file_size(file), 4u);
  expect_says(refuse(node.dir() / "missing/node.sock"), "make it first");
  expect_says(refuse(node.dir() / std::string(200, 'x')), "choose a shorter one");
  expect_says(refuse(""), "needs a path");
  EXPECT_FALSE(make_unix_dialer(runtime_, std::string(200, 'x')).has_value());
  EXPECT_FALSE(make_unix_dialer(runtime_, "").has_value());
}

TEST_F(UnixSocket, LongestPathThatFitsIsServed) {
  ServedNode node;
  const std::string base = node.dir() / "";
  const std::string longest =
      base + std::string(sizeof(sockaddr_un::sun_path) - 1 - base.size(), 'p');
  ASSERT_TRUE(listen_unix(node.runtime(), longest, node.service()).has_value());
  EXPECT_FALSE(listen_unix(node.runtime(), longest + "p", node.service()).has_value());
}

// Two nodes that start at once over one stale socket: one serves, the other is told so.
TEST_F(UnixSocket, TwoServersAtOnceNeverBothServe) {
  ServedNode node;
  for (int round = 0; round < 20; ++round) {
    const std::string path = node.dir() / ("race" + std::to_string(round));
    {
      const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_un address = RawPeer::address_of(path);
      ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    std::unique_ptr<ControlServer> servers[2];
    std::vector<std::thread> threads;
    for (auto& server : servers) {
      threads.emplace_back([&] {
        if (auto made = listen_unix(node.runtime(), path, node.service()))
          server = std::move(*made);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ((servers[0] != nullptr) + (servers[1] != nullptr), 1);
  }
}

}  // namespace
}  // namespace farpage
