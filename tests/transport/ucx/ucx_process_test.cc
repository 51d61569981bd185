// Peers in processes of their own, which stop and die.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "tests/support/posting.h"
#include "tests/transport/ucx/ucx_peer.h"

namespace farpage::ucx {
namespace {

constexpr uint64_t kPatience = 10 * kSecond;
constexpr std::byte kUntouched{0xEE};
constexpr bool kFindsLeaks = std::string_view(FARPAGE_SANITIZERS).starts_with("address");

// Posix, or what UCX_TLS says, where there is a device for it.
std::string one_sided_transport() {
  const char* chosen = std::getenv("UCX_TLS");
  return chosen == nullptr ? "posix" : chosen;
}

uint64_t now() {
  return boottime_clock().now_ns();
}

class PeerProcess {
 public:
  explicit PeerProcess(const std::string& transports) {
    std::array<int, 2> told = {};
    std::array<int, 2> standard_input = {};
    EXPECT_EQ(::pipe2(told.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(standard_input.data(), O_CLOEXEC), 0);
    const UniqueFd from_peer(told[0]);
    UniqueFd to_test(told[1]);
    const UniqueFd its_input(standard_input[0]);
    input_.reset(standard_input[1]);
    const std::string fd = std::to_string(to_test.get());
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::fcntl(to_test.get(), F_SETFD, 0);
      ::dup2(its_input.get(), STDIN_FILENO);
      ::execl(FARPAGE_UCX_PEER, FARPAGE_UCX_PEER, transports.c_str(), fd.c_str(), nullptr);
      ::_exit(127);
    }
    to_test.reset();
    for (std::string* text : {&read_offer, &stage_offer, &pool, &staging}) {
      *text = next(from_peer.get());
    }
  }
  ~PeerProcess() { kill(); }

  // Returns once all its threads have stopped.
  void stop() const {
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void go_on() const { ASSERT_EQ(::kill(pid_, SIGCONT), 0); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  std::string read_offer;
  std::string stage_offer;
  std::string pool;
  std::string staging;

 private:
  static std::string next(int fd) {
    uint32_t length = 0;
    EXPECT_EQ(::read(fd, &length, sizeof length), static_cast<ssize_t>(sizeof length));
    std::string bytes(length, '\0');
    EXPECT_EQ(::read(fd, bytes.data(), length), static_cast<ssize_t>(length));
    return bytes;
  }

  pid_t pid_ = 0;
  UniqueFd input_;
};

// A channel of this process to a peer process.
class UcxProcess : public testing::Test {
 protected:
  void connect(const std::string& transports, ChannelPurpose purpose) {
    UcxOptions options;
    options.transports = transports;
    options.allow_emulated = true;
    peer_.emplace(transports);
    fabric_ = make_ucx_fabric(options).value();
    const bool reads = purpose == ChannelPurpose::kRead;
    ChannelOffer offer;
    offer.purpose = purpose;
    offer.opaque = reads ? peer_->read_offer : peer_->stage_offer;
    auto channel = fabric_->connect(std::move(offer), now() + kPatience);
    ASSERT_TRUE(channel.has_value()) << channel.error().message;
    channel_ = std::move(*channel);
    RegionExport region;
    region.bytes = kPeerBytes;
    region.access = reads ? Access::kRemoteRead : Access::kRemoteWrite;
    region.opaque = reads ? peer_->pool : peer_->staging;
    remote_ = import_whole(*channel_, std::move(region)).value();
    memory_.assign(kPeerBytes, kUntouched);
    local_ = fabric_->register_local({.data = memory_.data(), .bytes = memory_.size()}).value();
  }

  Operation operation(OperationKind kind, uint64_t offset, uint64_t bytes, uint64_t tag) const {
    Operation made;
    made.kind = kind;
    made.has_immediate = kind == OperationKind::kWrite;
    made.tag = tag;
    made.remote = remote_;
    made.remote_offset = offset;
    made.local_count = 1;
    made.local[0] = local_.slice(offset, bytes);
    return made;
  }

  std::vector<Completion> collect(size_t count, uint64_t deadline_ns) {
    std::vector<Completion> all;
    while (all.size() < count && now() < deadline_ns) {
      std::array<Completion, 32> some;
      const size_t got = channel_->poll(some);
      all.insert(all.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(got));
      if (got == 0) channel_->wait(deadline_ns);
    }
    return all;
  }

  bool all_filled() const {
    return std::ranges::all_of(memory_, [](std::byte b) { return b == std::byte{kPeerFill}; });
  }
  bool untouched() const {
    return std::ranges::all_of(memory_, [](std::byte b) { return b == kUntouched; });
  }

  std::optional<PeerProcess> peer_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::byte> memory_;
  Region local_;
  RemoteRegion remote_;
  std::unique_ptr<Initiator> channel_;
};

// A path is one-sided: the peer need not be awake.
TEST_F(UcxProcess, AStoppedPeerIsReadWhereItIsSaidToBe) {
  connect(one_sided_transport(), ChannelPurpose::kRead);
  EXPECT_TRUE(fabric_->capabilities().one_sided);
  EXPECT_TRUE(
      fabric_->capabilities().path.starts_with("UCX over " + one_sided_transport().substr(0, 2)));
  peer_->stop();
  const Operation read = operation(OperationKind::kRead, 0, kPeerBytes, 1);
  ASSERT_EQ(post_operations(*channel_, {&read, 1}).accepted, 1u);
  const auto ended = collect(1, now() + kPatience);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kOk);
  EXPECT_TRUE(all_filled());
}

TEST_F(UcxProcess, AStoppedPeerAnswersNoEmulatedReadAndItIsSaid) {
  connect("tcp", ChannelPurpose::kRead);
  EXPECT_FALSE(fabric_->capabilities().one_sided);
  EXPECT_NE(fabric_->capabilities().path.find("tcp/"), std::string_view::npos);
  EXPECT_NE(fabric_->capabilities().path.find("emulated"), std::string_view::npos);
  peer_->stop();
  const Operation read = operation(OperationKind::kRead, 0, kPeerBytes, 1);
  ASSERT_EQ(post_operations(*channel_, {&read, 1}).accepted, 1u);
  EXPECT_TRUE(collect(1, now() + 200 * kMillisecond).empty());
  channel_->close();
  const auto ended = collect(1, now() + kPatience);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kAborted);
  EXPECT_TRUE(untouched());
}

// I4. Over tcp a read is under way for as long as the peer is stopped.
TEST_F(UcxProcess, ALocalRegionThatGoesEndsWhatIsUnderWayOnIt) {
  connect("tcp", ChannelPurpose::kRead);
  peer_->stop();
  const Operation read = operation(OperationKind::kRead, 0, kPeerBytes, 1);
  ASSERT_EQ(post_operations(*channel_, {&read, 1}).accepted, 1u);
  local_ = Region();
  const auto ended = collect(1, now() + kPatience);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kFailed);
  EXPECT_TRUE(untouched());
  EXPECT_EQ(post_operations(*channel_, {&read, 1}).status.code, Code::kUnavailable);
}

// Its bytes have left long before: what is waited for is the flush behind it.
TEST_F(UcxProcess, AWriteHasEndedOnlyOnceThePeerHasIt) {
  connect("tcp", ChannelPurpose::kStage);
  peer_->stop();
  Operation write = operation(OperationKind::kWrite, 0, 4096, 1);
  write.has_immediate = false;
  ASSERT_EQ(post_operations(*channel_, {&write, 1}).accepted, 1u);
  EXPECT_TRUE(collect(1, now() + 200 * kMillisecond).empty());
  peer_->go_on();
  const auto ended = collect(1, now() + kPatience);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kOk);
}

// I3, I4: whatever has become of the peer, close() ends everything, and in time.
TEST_F(UcxProcess, AKilledPeerEndsEveryOperation) {
  for (const std::string& transports : {one_sided_transport(), std::string("tcp")}) {
    for (const OperationKind kind : {OperationKind::kRead, OperationKind::kWrite}) {
      SCOPED_TRACE(transports);
      connect(transports,
              kind == OperationKind::kRead ? ChannelPurpose::kRead : ChannelPurpose::kStage);
      uint64_t accepted = 0;
      size_t ended = 0;
      for (uint64_t turn = 0; turn < 40; ++turn) {
        if (turn == 20) peer_->kill();
        std::vector<Operation> batch;
        for (uint64_t i = 0; i < 32; ++i) batch.push_back(operation(kind, i * 4096, 4096, i));
        accepted += post_operations(*channel_, batch).accepted;
        ended += collect(accepted - ended, now() + 10 * kMillisecond).size();
      }
      EXPECT_GT(accepted, 0u);
      const uint64_t closing = now();
      channel_->close();
      EXPECT_LT(now() - closing, 2 * kSecond);
      ended += collect(accepted - ended, now() + kPatience).size();
      EXPECT_EQ(ended, accepted);
      std::ranges::fill(memory_, kUntouched);
      Completion more;
      EXPECT_EQ(channel_->poll({&more, 1}), 0u);
      EXPECT_TRUE(untouched());
      channel_.reset();
      local_ = Region();
      peer_.reset();
    }
  }
}

TEST_F(UcxProcess, ADeadPeersOfferIsRefusedByTheDeadline) {
  std::vector<std::string> all = {one_sided_transport(), "tcp"};
  // UCX 1.13 loses 100 bytes for each peer that it cannot attach over posix.
  if (kFindsLeaks) all.erase(all.begin());
  for (const std::string& transports : all) {
    PeerProcess peer(transports);
    peer.kill();
    UcxOptions options;
    options.transports = transports;
    options.allow_emulated = true;
    const auto fabric = make_ucx_fabric(options).value();
    ChannelOffer offer;
    offer.opaque = peer.read_offer;
    const uint64_t deadline = now() + 300 * kMillisecond;
    EXPECT_FALSE(fabric->connect(std::move(offer), deadline).has_value()) << transports;
    EXPECT_LT(now(), deadline + 2 * kSecond);
  }
}

TEST_F(UcxProcess, AStoppedPeerTakesUpNothingAndTheDeadlineHolds) {
  PeerProcess peer(one_sided_transport());
  peer.stop();
  UcxOptions options;
  options.transports = one_sided_transport();
  const auto fabric = make_ucx_fabric(options).value();
  ChannelOffer offer;
  offer.opaque = peer.read_offer;
  const uint64_t deadline = now() + 100 * kMillisecond;
  const auto channel = fabric->connect(std::move(offer), deadline);
  ASSERT_FALSE(channel.has_value());
  EXPECT_EQ(channel.error().code, Code::kTimeout);
  EXPECT_LT(now(), deadline + 2 * kSecond);
}

}  // namespace
}  // namespace farpage::ucx
