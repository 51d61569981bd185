#include "tests/transport/contract/contract.h"

#include <algorithm>
#include <array>

#include "tests/support/posting.h"

namespace farpage::contract {

std::byte pattern(uint64_t position, uint64_t salt) {
  return static_cast<std::byte>((position * 131 + position / 251 + salt * 17) % 223);
}

void fill(std::byte* data, uint64_t bytes, uint64_t salt) {
  for (uint64_t i = 0; i < bytes; ++i) data[i] = pattern(i, salt);
}

uint64_t first_difference(const std::byte* data, uint64_t bytes, uint64_t position, uint64_t salt) {
  uint64_t i = 0;
  while (i < bytes && data[i] == pattern(position + i, salt)) ++i;
  return i;
}

bool untouched(const std::vector<std::byte>& memory) {
  return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == kUntouched; });
}

Operation read_operation(const Link& link, uint64_t remote_offset, uint64_t local_offset,
                         uint64_t bytes, uint64_t tag) {
  Operation operation;
  operation.local_count = 1;
  operation.tag = tag;
  operation.remote = link.remote;
  operation.remote_offset = remote_offset;
  operation.local[0] = link.local.slice(local_offset, bytes);
  return operation;
}

Operation write_operation(const Link& link, uint64_t remote_offset, uint64_t local_offset,
                          uint64_t bytes, uint64_t tag) {
  Operation operation = read_operation(link, remote_offset, local_offset, bytes, tag);
  operation.kind = OperationKind::kWrite;
  return operation;
}

size_t post_all(Initiator& initiator, std::span<const Operation> operations) {
  const Posted result = post_operations(initiator, operations);
  EXPECT_TRUE(result.status.ok()) << result.status.context;
  return result.accepted;
}

bool all_ok(const std::vector<Completion>& completions) {
  return std::all_of(completions.begin(), completions.end(), [](const Completion& completion) {
    return completion.outcome == Outcome::kOk;
  });
}

std::multiset<uint64_t> tags(const std::vector<Completion>& completions) {
  std::multiset<uint64_t> tags;
  for (const Completion& completion : completions) tags.insert(completion.tag);
  return tags;
}

std::multiset<uint64_t> tags_up_to(uint64_t count) {
  std::multiset<uint64_t> tags;
  for (uint64_t tag = 0; tag < count; ++tag) tags.insert(tag);
  return tags;
}

void Harness::make_round_trip() {
  std::array<std::byte, 64> memory;
  auto offered = passive().offer_channel(ChannelPurpose::kRead).value();
  offered.offer.peer = peer();
  auto channel = active().connect(std::move(offered.offer), clock().now_ns() + kSecond).value();
  auto pool = passive().allocate_readable(memory.size()).value();
  auto local = active().register_local({.data = memory.data(), .bytes = memory.size()}).value();
  Operation read;
  read.local_count = 1;
  read.local[0] = local.slice(0, memory.size());
  read.remote = import_whole(*channel, passive().export_region(pool).value()).value();
  EXPECT_EQ(post_operations(*channel, {&read, 1}).accepted, 1u);
  Completion ended;
  while (channel->poll({&ended, 1}) == 0) channel->wait(clock().now_ns() + kSecond);
  EXPECT_EQ(ended.outcome, Outcome::kOk);
}

Result<std::unique_ptr<Initiator>> ContractTest::take_up(ChannelOffer offer, uint64_t deadline_ns) {
  offer.peer = harness_->peer();
  return harness_->active().connect(std::move(offer), deadline_ns);
}

void ContractTest::connect(ChannelPurpose purpose, Link& link) {
  Result<OfferedTarget> offered = harness_->passive().offer_channel(purpose);
  ASSERT_TRUE(offered) << offered.error().message;
  auto initiator = take_up(std::move(offered->offer), soon());
  ASSERT_TRUE(initiator) << initiator.error().message;
  link.target = std::move(offered->target);
  link.initiator = std::move(*initiator);
}

Link ContractTest::make_link(ChannelPurpose purpose, uint64_t bytes) {
  Link link;
  connect(purpose, link);
  auto region = purpose == ChannelPurpose::kRead ? harness_->passive().allocate_readable(bytes)
                                                 : link.target->allocate_writable(bytes);
  EXPECT_TRUE(region) << region.error().message;
  link.remote_region = std::move(*region);
  auto exported = harness_->passive().export_region(link.remote_region);
  EXPECT_TRUE(exported) << exported.error().message;
  auto remote = import_whole(*link.initiator, std::move(*exported));
  EXPECT_TRUE(remote) << remote.error().message;
  link.remote = *remote;
  link.memory.assign(bytes, kUntouched);
  auto local = harness_->active().register_local({.data = link.memory.data(), .bytes = bytes});
  EXPECT_TRUE(local) << local.error().message;
  link.local = std::move(*local);
  return link;
}

template <typename Item, typename End>
std::vector<Item> ContractTest::collect_from(End& end, size_t count) {
  std::vector<Item> all;
  std::array<Item, 7> some;
  const uint64_t deadline = soon();
  while (all.size() < count) {
    const size_t got = end.poll(std::span(some).first(std::min(some.size(), count - all.size())));
    all.insert(all.end(), some.begin(), some.begin() + got);
    if (got > 0) continue;
    if (harness_->clock().now_ns() >= deadline) break;
    end.wait(deadline);
  }
  return all;
}

std::vector<Completion> ContractTest::collect(Initiator& initiator, size_t count) {
  return collect_from<Completion>(initiator, count);
}

std::vector<uint32_t> ContractTest::collect(Target& target, size_t count) {
  return collect_from<uint32_t>(target, count);
}

bool ContractTest::refused(Initiator& initiator, const Operation& operation) {
  const Posted posted = post_operations(initiator, std::span(&operation, 1));
  if (posted.accepted == 0 || !posted.status.ok()) return false;
  const std::vector<Completion> ended = collect(initiator, 1);
  if (ended.size() != 1) return false;
  return ended[0].outcome == Outcome::kFailed || ended[0].outcome == Outcome::kRefused;
}

}  // namespace farpage::contract
