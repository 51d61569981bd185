#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>

#include "base/memory/mapping.h"
#include "tests/support/posting.h"
#include "transport/shm/ring.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

// The other end of a channel shares its memory, and writes there whatever it likes.
class ShmHostilePeer : public ::testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd copy(::fcntl(offered_.offer.fd.get(), F_DUPFD_CLOEXEC, 0));
    shared_ =
        Mapping::share(copy.get(), sizeof(shm::ChannelMemory), Protection::kReadWrite).value();
    initiator_ = fabric_->connect(std::move(offered_.offer), kNever).value();
  }
  shm::ChannelMemory& memory() { return *reinterpret_cast<shm::ChannelMemory*>(shared_.data()); }

  std::unique_ptr<Fabric> fabric_ = shm::make_shm_fabric();
  OfferedTarget offered_ = fabric_->offer_channel(ChannelPurpose::kStage).value();
  std::unique_ptr<Initiator> initiator_;
  Mapping shared_;
};

TEST_F(ShmHostilePeer, ForgedTailEndsTheChannelAndNotTheNode) {
  memory().immediates.tail = 0xFFFFFFFF;  // four billion immediates, says the peer
  std::array<uint32_t, 64> immediates;
  EXPECT_EQ(offered_.target->poll(immediates), 0u);
  const Operation nothing;
  EXPECT_EQ(post_operations(*initiator_, {&nothing, 1}).status.code, Code::kUnavailable);
}

TEST_F(ShmHostilePeer, OwnIndexInSharedMemoryIsNotBelieved) {
  auto staging = offered_.target->allocate_writable(4096).value();
  auto remote = import_whole(*initiator_, fabric_->export_region(staging).value()).value();
  Operation write;
  write.kind = OperationKind::kWrite;
  write.has_immediate = true;
  write.immediate = 7;
  write.remote = remote;
  Completion written;
  ASSERT_EQ(post_operations(*initiator_, {&write, 1}).accepted, 1u);
  ASSERT_EQ(initiator_->poll({&written, 1}), 1u);
  memory().immediates.head = 12345;  // the node's own index
  std::array<uint32_t, 4> immediates;
  ASSERT_EQ(offered_.target->poll(immediates), 1u);
  EXPECT_EQ(immediates[0], 7u);
  EXPECT_EQ(offered_.target->poll(immediates), 0u);
}

}  // namespace
}  // namespace farpage
