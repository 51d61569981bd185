#include "control/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

namespace farpage {
namespace {

template <typename Message>
Message round_trip(Message message, uint64_t id = 42) {
  if constexpr (std::is_constructible_v<Request, Message>) {
    auto decoded = decode_request(encode(NumberedRequest{id, std::move(message)}));
    EXPECT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->id, id);
    return std::get<Message>(std::move(decoded->request));
  } else {
    auto decoded = decode_reply(encode(NumberedReply{id, std::move(message)}));
    EXPECT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->id, id);
    return std::get<Message>(std::move(decoded->reply));
  }
}

// A descriptor that can be recognised: a pipe's end has an inode of its own.
UniqueFd new_fd() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

ino_t inode(const UniqueFd& fd) {
  struct stat status = {};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

RegionExport region(uint64_t number) {
  return {
      1000 + number,
      number % 2 == 0 ? Access::kRemoteRead : Access::kRemoteWrite,
      {number % 3 == 0 ? MemoryKind::kHost : MemoryKind::kCuda, static_cast<int16_t>(number - 1)},
      std::string("\0region", 7) + std::to_string(number),
      new_fd()};
}

void expect_equal(const RegionExport& a, const RegionExport& b) {
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.access, b.access);
  EXPECT_EQ(a.place, b.place);
  EXPECT_EQ(a.opaque, b.opaque);
}

VerdictCounts numbered_verdicts(uint64_t first) {
  return {first + 1, first + 2, first + 3, first + 4, first + 5,
          first + 6, first + 7, first + 8, first + 9};
}

void expect_numbered(const VerdictCounts& counts, uint64_t first) {
  const uint64_t numbers[] = {counts.fetches, counts.ready,       counts.ready_bytes,
                              counts.miss,    counts.stale,       counts.corrupt,
                              counts.stalled, counts.unreachable, counts.slower};
  for (uint64_t i = 0; i < std::size(numbers); ++i) EXPECT_EQ(numbers[i], first + i + 1);
}

TEST(Codec, Hello) {
  const auto request = round_trip(HelloRequest{7, 8, UINT64_MAX});
  EXPECT_EQ(request.protocol, 7u);
  EXPECT_EQ(request.page_format, 8u);
  EXPECT_EQ(request.staging_bytes, UINT64_MAX);

  HelloReply sent = {
      2, 3, 4, 5, 6, 7, 8, 9, {ChannelPurpose::kStage, "offer", new_fd()}, region(1), "backend"};
  const ino_t offer_inode = inode(sent.staging_offer.fd);
  const ino_t staging_inode = inode(sent.staging.fd);
  const HelloReply got = round_trip(std::move(sent));
  EXPECT_EQ(got.protocol, 2u);
  EXPECT_EQ(got.epoch, 3u);
  EXPECT_EQ(got.incarnation, 4u);
  EXPECT_EQ(got.reuse_ns, 5u);
  EXPECT_EQ(got.lease_ns, 6u);
  EXPECT_EQ(got.page_bytes, 7u);
  EXPECT_EQ(got.slots, 8u);
  EXPECT_EQ(got.buckets, 9u);
  EXPECT_EQ(got.staging_offer.purpose, ChannelPurpose::kStage);
  EXPECT_EQ(got.staging_offer.opaque, "offer");
  EXPECT_EQ(inode(got.staging_offer.fd), offer_inode);
  EXPECT_EQ(got.backend, "backend");
  EXPECT_EQ(got.slot_layout, 0u);
  expect_equal(got.staging, region(1));
  EXPECT_EQ(inode(got.staging.fd), staging_inode);
}

TEST(Codec, OpenLaneKeepsItsDescriptorsApart) {
  EXPECT_EQ(round_trip(OpenLaneRequest{99}).replaces, 99u);
  OpenLaneReply sent;
  sent.lane = 12;
  sent.read_offer = {ChannelPurpose::kRead, "read", new_fd()};
  sent.pool = region(2);
  sent.index = region(3);
  const ino_t inodes[] = {inode(sent.read_offer.fd), inode(sent.pool.fd), inode(sent.index.fd)};
  const OpenLaneReply got = round_trip(std::move(sent));
  EXPECT_EQ(got.lane, 12u);
  EXPECT_EQ(got.read_offer.purpose, ChannelPurpose::kRead);
  EXPECT_EQ(got.read_offer.opaque, "read");
  expect_equal(got.pool, region(2));
  expect_equal(got.index, region(3));
  EXPECT_EQ(inode(got.read_offer.fd), inodes[0]);
  EXPECT_EQ(inode(got.pool.fd), inodes[1]);
  EXPECT_EQ(inode(got.index.fd), inodes[2]);
}

TEST(Codec, LayoutOfSlotsAndTheRegionOfTheirHeaders) {
  for (const uint32_t layout : {1u, 256u, UINT32_MAX}) {
    HelloReply hello;
    hello.slot_layout = layout;
    EXPECT_EQ(round_trip(std::move(hello)).slot_layout, layout) << "who uses it judges it";
  }
  OpenLaneReply sent;
  sent.headers = region(4);
  const ino_t descriptor = inode(sent.headers->fd);
  const OpenLaneReply got = round_trip(std::move(sent));
  expect_equal(got.headers.value(), region(4));
  EXPECT_EQ(inode(got.headers->fd), descriptor);
  EXPECT_FALSE(round_trip(OpenLaneReply{}).headers);
}

// They come last: no other region is taken for theirs.
TEST(Codec, HeadersThatWereCutOffAreNone) {
  const auto cut = [](size_t bytes, size_t descriptors) {
    OpenLaneReply lane;
    lane.pool = region(2);
    lane.headers = region(4);
    Frame frame = encode(NumberedReply{1, std::move(lane)});
    frame.body.resize(frame.body.size() - bytes);
    frame.descriptors.resize(frame.descriptors.size() - descriptors);
    return decode_reply(std::move(frame));
  };
  for (size_t bytes = 1; bytes < 40; ++bytes) {
    const auto got = cut(bytes, 0);
    const auto* lane = got ? std::get_if<OpenLaneReply>(&got->reply) : nullptr;
    EXPECT_TRUE(lane == nullptr || !lane->headers) << bytes;
  }
  const auto got = cut(0, 1);
  EXPECT_FALSE(std::get<OpenLaneReply>(got->reply).headers.value().fd.valid());
}

TEST(Codec, DescriptorsThatDidNotComeAreNone) {
  HelloReply sent;
  sent.staging_offer.fd = new_fd();
  sent.staging.fd = new_fd();
  Frame frame = encode(NumberedReply{1, std::move(sent)});
  ASSERT_EQ(frame.descriptors.size(), 2u);
  frame.descriptors.pop_back();
  const auto got = decode_reply(std::move(frame));
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(std::get<HelloReply>(got->reply).staging_offer.fd.valid());
  EXPECT_FALSE(std::get<HelloReply>(got->reply).staging.fd.valid());
}

RC_GTEST_PROP(CodecProperty, Commit,
              (uint64_t id, uint32_t immediate, uint64_t patience, uint32_t seed)) {
  CommitRequest sent = {immediate, patience, {}};
  std::mt19937_64 random(seed);
  const size_t pages = *rc::gen::inRange<size_t>(0, kMaxCommitPages + 1);
  for (size_t i = 0; i < pages; ++i) {
    sent.pages.push_back({{random(), random()},
                          random(),
                          static_cast<uint32_t>(random()),
                          static_cast<uint32_t>(random())});
  }
  const CommitRequest got = round_trip(sent, id);
  RC_ASSERT(got.immediate == immediate);
  RC_ASSERT(got.patience_ns == patience);
  RC_ASSERT(got.pages.size() == pages);
  for (size_t i = 0; i < pages; ++i) {
    RC_ASSERT(got.pages[i].key == sent.pages[i].key);
    RC_ASSERT(got.pages[i].staging_offset == sent.pages[i].staging_offset);
    RC_ASSERT(got.pages[i].payload_bytes == sent.pages[i].payload_bytes);
    RC_ASSERT(got.pages[i].payload_crc == sent.pages[i].payload_crc);
  }
}

TEST(Codec, CommitReplyKeepsCodesAndOrder) {
  CommitReply sent;
  for (uint8_t code = 0; code <= static_cast<uint8_t>(Code::kSystem); ++code) {
    sent.results.push_back({static_cast<Code>(code), code * uint64_t{1000}});
  }
  sent.why = "member 7 is away";
  const CommitReply got = round_trip(sent);
  EXPECT_EQ(got.why, sent.why);
  ASSERT_EQ(got.results.size(), sent.results.size());
  for (size_t i = 0; i < sent.results.size(); ++i) {
    EXPECT_EQ(got.results[i].code, sent.results[i].code);
    EXPECT_EQ(got.results[i].version, sent.results[i].version);
  }
}

TEST(Codec, Remove) {
  RemoveRequest sent;
  for (uint64_t i = 0; i < kMaxRemoveKeys; ++i) sent.keys.push_back({i, ~i});
  sent.patience_ns = UINT64_MAX - 7;
  const RemoveRequest got = round_trip(sent);
  EXPECT_EQ(got.keys, sent.keys);
  EXPECT_EQ(got.patience_ns, sent.patience_ns);
  EXPECT_EQ(round_trip(RemoveReply{UINT64_MAX}).removed, UINT64_MAX);
}

TEST(Codec, StatusRequestCarriesNothing) {
  round_trip(StatusRequest{});
}

TEST(Codec, Renew) {
  const RenewRequest renewal = round_trip(RenewRequest{UINT64_MAX, numbered_verdicts(0)});
  EXPECT_EQ(renewal.incarnation, UINT64_MAX);
  expect_numbered(renewal.verdicts, 0);
  EXPECT_EQ(round_trip(EpochRequest{{UINT64_MAX, 3}}).known, (EpochTag{UINT64_MAX, 3}));
  const EpochReply epoch =
      round_trip(EpochReply{{1, UINT64_MAX - 1},
                            2,
                            3,
                            UINT64_MAX - 4,
                            5,
                            {{UINT64_MAX - 6, 7, true, 10, "host:1"}, {8, 9}}});
  EXPECT_EQ(epoch.view, (EpochTag{1, UINT64_MAX - 1}));
  EXPECT_EQ(epoch.view_age_ns, 2u);
  EXPECT_EQ(epoch.replicas, 3u);
  EXPECT_EQ(epoch.seed, UINT64_MAX - 4);
  EXPECT_EQ(epoch.page_bytes, 5u);
  ASSERT_EQ(epoch.members.size(), 2u);
  EXPECT_EQ(epoch.members[0].node, UINT64_MAX - 6);
  EXPECT_EQ(epoch.members[0].incarnation, 7u);
  EXPECT_TRUE(epoch.members[0].leaving);
  EXPECT_EQ(epoch.members[0].slot, 10u);
  EXPECT_EQ(epoch.members[0].address, "host:1");
  EXPECT_FALSE(epoch.members[1].leaving);
  const RenewReply renewed = round_trip(RenewReply{UINT64_MAX - 1, {3, UINT64_MAX - 4}, 5});
  EXPECT_EQ(renewed.incarnation, UINT64_MAX - 1);
  EXPECT_EQ(renewed.epoch, (EpochTag{3, UINT64_MAX - 4}));
  EXPECT_EQ(renewed.view_age_ns, 5u);
}

TEST(Codec, OpenPushCarriesTheClientsDescriptors) {
  OpenPushRequest sent = {7, {ChannelPurpose::kStage, "offer", new_fd()}, region(3)};
  const ino_t offer_inode = inode(sent.offer.fd);
  const ino_t landing_inode = inode(sent.landing.fd);
  const OpenPushRequest got = round_trip(std::move(sent));
  EXPECT_EQ(got.replaces, 7u);
  EXPECT_EQ(got.offer.purpose, ChannelPurpose::kStage);
  EXPECT_EQ(got.offer.opaque, "offer");
  EXPECT_EQ(inode(got.offer.fd), offer_inode);
  expect_equal(got.landing, region(3));
  EXPECT_EQ(inode(got.landing.fd), landing_inode);
  EXPECT_EQ(round_trip(OpenPushReply{UINT64_MAX}).lane, UINT64_MAX);
}

RC_GTEST_PROP(CodecProperty, Push, (uint64_t lane, uint32_t immediate, uint32_t seed)) {
  std::mt19937_64 random(seed);
  PushRequest sent = {lane, immediate, static_cast<uint32_t>(random()), random(), {}};
  PushReply reply;
  const size_t pages = *rc::gen::inRange<size_t>(0, kMaxPushPages + 1);
  for (size_t i = 0; i < pages; ++i) {
    sent.pages.push_back({{random(), random()}, static_cast<uint32_t>(random())});
    reply.codes.push_back(random() % 2 == 0 ? Code::kOk : Code::kNotFound);
  }
  const PushRequest got = round_trip(sent);
  RC_ASSERT(got.lane == lane);
  RC_ASSERT(got.immediate == immediate);
  RC_ASSERT(got.group_pages == sent.group_pages);
  RC_ASSERT(got.patience_ns == sent.patience_ns);
  RC_ASSERT(got.pages.size() == pages);
  for (size_t i = 0; i < pages; ++i) {
    RC_ASSERT(got.pages[i].key == sent.pages[i].key);
    RC_ASSERT(got.pages[i].place == sent.pages[i].place);
  }
  RC_ASSERT(round_trip(reply).codes == reply.codes);
}

TEST(Codec, EpochTravelsWithWhatDependsOnIt) {
  const EpochTag tag = {5, 0xfedcba9876543210};
  HelloRequest hello;
  hello.node = 3;
  hello.incarnation = 4;
  hello.epoch = tag;
  hello.known_epoch = UINT64_MAX - 1;
  hello.known_incarnation = UINT64_MAX - 2;
  const HelloRequest got = round_trip(hello);
  EXPECT_EQ(got.node, 3u);
  EXPECT_EQ(got.incarnation, 4u);
  EXPECT_EQ(got.epoch, tag);
  EXPECT_EQ(got.known_epoch, UINT64_MAX - 1);
  EXPECT_EQ(got.known_incarnation, UINT64_MAX - 2);
  HelloReply greeting;
  greeting.node = 8;
  greeting.membership = tag;
  greeting.newest_epoch = UINT64_MAX;
  const HelloReply greeted = round_trip(std::move(greeting));
  EXPECT_EQ(greeted.node, 8u);
  EXPECT_EQ(greeted.membership, tag);
  EXPECT_EQ(greeted.newest_epoch, UINT64_MAX);
  EXPECT_EQ(round_trip(CommitRequest{1, 2, {}, tag}).epoch, tag);
  EXPECT_EQ(round_trip(RemoveRequest{{{1, 2}}, tag}).epoch, tag);
  const Refusal refusal = round_trip(Refusal{Code::kOtherEpoch, "6 here", tag});
  EXPECT_EQ(refusal.code, Code::kOtherEpoch);
  EXPECT_EQ(refusal.epoch, tag);
}

void expect_equal(const HeldPage& a, const HeldPage& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.slot, b.slot);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.dead, b.dead);
}

TEST(Codec, Replicate) {
  const ReplicateRequest sent = {
      {5, 6}, {{{{1, 2}, UINT64_MAX, 3, 4, false}, false}, {{{7, 8}, 9, 0, 0, true}, true}}, 10};
  const ReplicateRequest got = round_trip(sent);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.patience_ns, sent.patience_ns);
  ASSERT_EQ(got.pages.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    expect_equal(got.pages[i].page, sent.pages[i].page);
    EXPECT_EQ(got.pages[i].removed, sent.pages[i].removed);
  }
  const ReplicateReply reply = {{Code::kOk, Code::kOtherEpoch, Code::kExhausted}};
  EXPECT_EQ(round_trip(reply).codes, reply.codes);
}

TEST(Codec, HoldingsAndReport) {
  const HoldingsRequest asked = round_trip(HoldingsRequest{{5, 6}, {{1, 2}, {3, 4}}, 7, 9});
  EXPECT_EQ(asked.epoch, (EpochTag{5, 6}));
  EXPECT_EQ(asked.keys, (std::vector<PageKey>{{1, 2}, {3, 4}}));
  EXPECT_EQ(asked.cursor, 7u);
  EXPECT_EQ(asked.since, 9u);
  const HeldPage page = {{1, 2}, 3, UINT32_MAX, 4096, true};
  const HoldingsReply held = round_trip(HoldingsReply{{page}, 8, true});
  ASSERT_EQ(held.pages.size(), 1u);
  expect_equal(held.pages[0], page);
  EXPECT_EQ(held.next, 8u);
  EXPECT_TRUE(held.looking);
  EXPECT_EQ(round_trip(ReportRequest{{{9, 10}}}).keys, (std::vector<PageKey>{{9, 10}}));
  const ReportReply reported = round_trip(ReportReply{11, 12});
  EXPECT_EQ(reported.dropped, 11u);
  EXPECT_EQ(reported.newest_epoch, 12u);
}

TEST(Codec, PeerWithoutTheNewerFieldsTellsNone) {
  // An earlier version's: envelope {id 1, renew {incarnation 9}}.
  const std::string renewal("\x08\x01\x32\x09\x09\x09\0\0\0\0\0\0\0", 13);
  const auto got = decode_request(Frame{renewal, {}});
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(std::get<RenewRequest>(got->request).incarnation, 9u);
  EXPECT_EQ(std::get<RenewRequest>(got->request).verdicts.ready, 0u);
}

TEST(Codec, RefusalKeepsItsSentence) {
  const Refusal got = round_trip(Refusal{Code::kExhausted, "no room — try later"});
  EXPECT_EQ(got.code, Code::kExhausted);
  EXPECT_EQ(got.message, "no room — try later");
}

TEST(Codec, UnknownCodeIsTheProtocolsFault) {
  const Refusal got = round_trip(Refusal{static_cast<Code>(200), ""});
  EXPECT_EQ(got.code, Code::kProtocol);
}

TEST(Codec, TooManyOfAnythingIsRefused) {
  CommitRequest commit;
  commit.pages.resize(kMaxCommitPages + 1);
  auto refused = decode_request(encode(NumberedRequest{1, commit}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kProtocol);
  RemoveRequest remove;
  remove.keys.resize(kMaxRemoveKeys + 1);
  refused = decode_request(encode(NumberedRequest{1, remove}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kProtocol);
  ReplicateRequest replicate;
  replicate.pages.resize(kMaxReplicaPages + 1);
  EXPECT_FALSE(decode_request(encode(NumberedRequest{1, replicate})).has_value());
  HoldingsRequest holdings;
  holdings.keys.resize(kMaxReplicaPages + 1);
  EXPECT_FALSE(decode_request(encode(NumberedRequest{1, holdings})).has_value());
  ReportRequest report;
  report.keys.resize(kMaxReplicaPages + 1);
  EXPECT_FALSE(decode_request(encode(NumberedRequest{1, report})).has_value());
  ReplicateReply replicated;
  replicated.codes.resize(kMaxReplicaPages + 1);
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, replicated})).has_value());
  HoldingsReply held;
  held.pages.resize(kMaxReplicaPages + 1);
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, held})).has_value());
  PushRequest push;
  push.pages.resize(kMaxPushPages + 1);
  refused = decode_request(encode(NumberedRequest{1, push}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kProtocol);
  PushReply pushed;
  pushed.codes.resize(kMaxPushPages + 1);
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, pushed})).has_value());
  StatusReply status;
  status.traffic.resize(kMaxTrafficPaths + 1);
  const auto refused_reply = decode_reply(encode(NumberedReply{1, status}));
  ASSERT_FALSE(refused_reply.has_value());
  EXPECT_EQ(refused_reply.error().code, Code::kProtocol);
  status.traffic.clear();
  status.ports.resize(kMaxTrafficPaths + 1);
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, status})).has_value());
  status.ports.clear();
  status.tenants.resize(kMaxTenants + 1);
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, status})).has_value());
  status.tenants.clear();
  status.fleet = {.node = 1, .others = std::vector<MemberStatus>(kMaxFleetMembers)};
  EXPECT_TRUE(decode_reply(encode(NumberedReply{1, status})).has_value());
  status.fleet.others.emplace_back();
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, status})).has_value());
  CommitReply committed;
  committed.results.resize(kMaxCommitPages + 1);
  EXPECT_FALSE(decode_reply(encode(NumberedReply{1, committed})).has_value());
}

TEST(Codec, UnknownKindIsRefused) {
  for (const std::string& body :
       {std::string(), std::string("\x08\x05"), std::string("\xF2\x07\x00", 3)}) {
    EXPECT_FALSE(decode_request(Frame{body, {}}).has_value());
    EXPECT_FALSE(decode_reply(Frame{body, {}}).has_value());
  }
}

RC_GTEST_PROP(CodecProperty, AnyBytesAreAMessageOrRefused, (const std::string& body)) {
  const auto request = decode_request(Frame{body, {}});
  RC_ASSERT(request.has_value() || request.error().code == Code::kProtocol);
  const auto reply = decode_reply(Frame{body, {}});
  RC_ASSERT(reply.has_value() || reply.error().code == Code::kProtocol);
}

// One byte of a good message is changed, or the message is cut: whatever comes out, nothing breaks.
RC_GTEST_PROP(CodecProperty, DamagedMessagesAreHarmless, (uint32_t seed)) {
  std::mt19937_64 random(seed);
  CommitRequest commit;
  commit.pages.resize(random() % 20);
  std::string body = encode(NumberedRequest{random(), commit}).body;
  if (body.empty()) return;
  body[random() % body.size()] = static_cast<char>(random());
  const auto request = decode_request(Frame{body.substr(0, random() % (body.size() + 1)), {}});
  RC_ASSERT(request.has_value() || request.error().code == Code::kProtocol);
  OpenLaneReply lane;
  lane.pool = region(5);
  lane.headers = region(6);
  Frame frame = encode(NumberedReply{random(), std::move(lane)});
  frame.body[random() % frame.body.size()] = static_cast<char>(random());
  const auto reply = decode_reply(std::move(frame));
  RC_ASSERT(reply.has_value() || reply.error().code == Code::kProtocol);
}

}  // namespace
}  // namespace farpage
