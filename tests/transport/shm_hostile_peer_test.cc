#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/mapping.h"
#include "transport/shm/ring.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

// The other end of a channel shares its memory, and writes there whatever it likes.
class ShmHostilePeer : public ::testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd copy(::fcntl(passive_.offer.fd.get(), F_DUPFD_CLOEXEC, 0));
    shared_ =
        Mapping::share(copy.get(), sizeof(shm::ChannelMemory), Protection::kReadWrite).value();
    active_ = fabric_->connect(std::move(passive_.offer), kNever).value();
  }
  shm::ChannelMemory& memory() { return *reinterpret_cast<shm::ChannelMemory*>(shared_.data()); }
  size_t polls_until_quiet(Channel& channel, size_t most) {
    std::array<Completion, 64> completions;
    size_t polls = 0;
    while (polls < most && channel.poll(completions) > 0) ++polls;
    return polls;
  }

  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  PassiveChannel passive_ = fabric_->offer_channel(ChannelPurpose::kStage).value();
  std::unique_ptr<Channel> active_;
  Mapping shared_;
};

TEST_F(ShmHostilePeer, ForgedTailEndsTheChannelAndNotTheNode) {
  memory().inbox[0].tail = 0xFFFFFFFF;  // four billion immediates, says the peer
  EXPECT_EQ(polls_until_quiet(*passive_.channel, 100), 0u);
  const Operation nothing;
  EXPECT_EQ(passive_.channel->post({&nothing, 1}, kNever).status.code, Code::kUnavailable);
}

TEST_F(ShmHostilePeer, OwnIndexInSharedMemoryIsNotBelieved) {
  auto staging = passive_.channel->allocate_writable(4096).value();
  auto remote = active_->import_region(fabric_->export_region(staging).value()).value();
  Operation write;
  write.kind = OperationKind::kWrite;
  write.has_immediate = true;
  write.immediate = 7;
  write.remote = remote;
  std::array<Completion, 4> completions;
  ASSERT_EQ(active_->post({&write, 1}, kNever).accepted, 1u);
  ASSERT_EQ(active_->poll(completions), 1u);
  memory().inbox[0].head = 12345;  // the node's own index
  ASSERT_EQ(passive_.channel->poll(completions), 1u);
  EXPECT_EQ(completions[0].immediate, 7u);
  EXPECT_EQ(passive_.channel->poll(completions), 0u);
}

TEST_F(ShmHostilePeer, ImmediatesWithoutEndHoldUpNoOperation) {
  std::vector<std::byte> place(64);
  auto landing = fabric_->register_local({place.data(), place.size()}).value();
  auto pool = fabric_->allocate_readable(4096).value();
  auto remote = active_->import_region(fabric_->export_region(pool).value()).value();
  Operation read;
  read.remote = remote;
  read.local_count = 1;
  read.local[0] = landing.slice(0, 64);
  read.tag = 9;
  ASSERT_EQ(active_->post({&read, 1}, kNever).accepted, 1u);
  Completion completion;
  uint32_t sent = 0;
  for (int poll = 0; poll < 4; ++poll) {  // one at a time, the inbox always full
    memory().inbox[1].tail = sent += 2;
    ASSERT_EQ(active_->poll({&completion, 1}), 1u);
    if (completion.kind == CompletionKind::kOperation) break;
  }
  EXPECT_EQ(completion.kind, CompletionKind::kOperation);
  EXPECT_EQ(completion.tag, 9u);
}

}  // namespace
}  // namespace farpage
