// Puts out of an engine's shared pool, which a node on the same host reads in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tests/support/shared_pool.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4 * kKiB;
constexpr uint64_t kPatientNs = 20 * kSecond;

class SourcePut : public ::testing::Test {
 protected:
  // The bytes of page `number` of the pool, as this test says.
  static std::vector<std::byte> bytes_of(uint64_t number) {
    std::vector<std::byte> bytes(kPageBytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(number * 31 + i * 7 + i / 256);
    }
    return bytes;
  }
  void write(uint64_t number, uint64_t place) {
    std::ranges::copy(bytes_of(number), pool_.data() + place * kPageBytes);
  }
  bool lands(const PageKey& key, uint64_t number) {
    const PageVerdict verdict = engine_.fetch(key, 0, kPatientNs);
    return verdict.verdict == Verdict::kReady &&
           std::ranges::equal(engine_.frame(0), bytes_of(number));
  }

  StatusReply status() { return client_->node_status(engine_.deadline(kPatientNs)).value(); }
  bool eventually(const std::function<bool()>& what) {
    const uint64_t end = engine_.deadline(kPatientNs);
    while (!what()) {
      if (client_->clock().now_ns() >= end) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // Registers the pool, and waits until the node reads it in place: the node says so first, and the
  // client hears its answer a moment later.
  Region shared_with_node() {
    auto region = client_->register_memory({pool_.data(), pool_.bytes()}).value();
    const uint64_t before = status().puts_in_place;
    EXPECT_TRUE(eventually([&] {
      put(test_key(99), region.slice(0, kPageBytes));
      return status().puts_in_place > before;
    }));
    return region;
  }
  PutResult put(const PageKey& key, const Slice& source) { return put(key, source, *client_); }
  PutResult put(const PageKey& key, const Slice& source, Client& client) {
    const PutRequest request = {key, source};
    Put put = client.put({&request, 1}, engine_.deadline(kPatientNs));
    return put.wait()[0];
  }

  SharedPool pool_{8 * kPageBytes, 2 * kPageBytes};
  Cluster cluster_;
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 4};
};

TEST_F(SourcePut, PagesOfASharedPoolComeBackWholeAndWereReadInPlace) {
  const Region region = shared_with_node();
  const StatusReply before = status();
  std::vector<PutRequest> requests;
  for (uint64_t place = 0; place < 8; ++place) {
    write(place + 10, place);
    requests.push_back({test_key(place), region.slice(place * kPageBytes, kPageBytes)});
  }
  Put put = client_->put(requests, engine_.deadline(kPatientNs));
  for (const PutResult& result : put.wait()) EXPECT_EQ(result.code, Code::kOk);
  for (uint64_t place = 0; place < 8; ++place) write(77, place);  // the pool is the engine's again
  for (uint64_t place = 0; place < 8; ++place) EXPECT_TRUE(lands(test_key(place), place + 10));
  EXPECT_EQ(status().puts_in_place - before.puts_in_place, 8u);
  EXPECT_EQ(status().sources, 1u);
}

TEST_F(SourcePut, OnePutTakesPagesFromThereAndFromPrivateMemory) {
  const Region region = shared_with_node();
  const StatusReply before = status();
  write(1, 1);
  write(3, 3);
  std::ranges::copy(bytes_of(2), engine_.frame(0).begin());
  std::ranges::copy(bytes_of(4), engine_.frame(1).begin());
  const std::vector<PutRequest> requests = {{test_key(1), region.slice(kPageBytes, kPageBytes)},
                                            {test_key(2), engine_.slice(0)},
                                            {test_key(3), region.slice(3 * kPageBytes, kPageBytes)},
                                            {test_key(4), engine_.slice(1)}};
  Put put = client_->put(requests, engine_.deadline(kPatientNs));
  for (const PutResult& result : put.wait()) EXPECT_EQ(result.code, Code::kOk);
  for (const uint64_t number : {1, 2, 3, 4}) EXPECT_TRUE(lands(test_key(number), number));
  EXPECT_EQ(status().puts_in_place - before.puts_in_place, 2u);
  EXPECT_EQ(status().puts - before.puts, 4u);
}

TEST_F(SourcePut, SourceIsLentUntilTheNodeHasAnswered) {
  const Region region = shared_with_node();
  write(5, 5);
  cluster_.hold();
  const PutRequest request = {test_key(5), region.slice(5 * kPageBytes, kPageBytes)};
  Put put = client_->put({&request, 1}, engine_.deadline(kPatientNs));
  EXPECT_FALSE(put.done());
  EXPECT_FALSE(put.released());
  EXPECT_FALSE(put.wait_released(engine_.deadline(kMillisecond)));
  cluster_.go_on();
  EXPECT_TRUE(put.wait_released(engine_.deadline(kPatientNs)));
  EXPECT_TRUE(put.done());
  EXPECT_EQ(put.wait()[0].code, Code::kOk);
  EXPECT_TRUE(lands(test_key(5), 5));
}

// An engine that does not wait for that harms its own put alone.
TEST_F(SourcePut, ASourceThatIsWrittenBeforeTheAnswerIsRefused) {
  const Region region = shared_with_node();
  write(5, 5);
  cluster_.hold();
  const PutRequest request = {test_key(5), region.slice(5 * kPageBytes, kPageBytes)};
  Put put = client_->put({&request, 1}, engine_.deadline(kPatientNs));
  write(6, 5);
  cluster_.go_on();
  EXPECT_EQ(put.wait()[0].code, Code::kAborted);
  EXPECT_EQ(engine_.fetch(test_key(5)).reason, Reason::kMiss);
}

TEST_F(SourcePut, APutThatIsLateIsReleasedAtItsDeadline) {
  const Region region = shared_with_node();
  cluster_.hold();
  const PutRequest request = {test_key(5), region.slice(5 * kPageBytes, kPageBytes)};
  Put put = client_->put({&request, 1}, engine_.deadline(20 * kMillisecond));
  EXPECT_EQ(put.wait()[0].code, Code::kTimeout);
  EXPECT_TRUE(put.released());
  cluster_.go_on();
}

TEST_F(SourcePut, AShortenedPoolCostsItsPagesAlone) {
  const Region region = shared_with_node();
  write(1, 1);
  cluster_.hold();
  const PutRequest request = {test_key(1), region.slice(kPageBytes, kPageBytes)};
  Put put = client_->put({&request, 1}, engine_.deadline(kPatientNs));
  pool_.resize(pool_.offset() + kPageBytes);
  cluster_.go_on();
  EXPECT_EQ(put.wait()[0].code, Code::kAborted);
  EXPECT_EQ(engine_.put(test_key(2), 2).code, Code::kOk);
}

TEST_F(SourcePut, TheNodeForgetsWhatIsNoLongerRegistered) {
  {
    const Region region = shared_with_node();
    EXPECT_EQ(status().sources, 1u);
  }
  EXPECT_TRUE(eventually([&] { return status().sources == 0; }));
  // The same memory again is another registration.
  const Region region = shared_with_node();
  EXPECT_EQ(status().sources, 1u);
}

TEST_F(SourcePut, TheNodeForgetsWhatAClientHadThatHasGone) {
  auto other = cluster_.connect();
  const auto region = other->register_memory({pool_.data(), pool_.bytes()}).value();
  for (int i = 0; i < 2; ++i) put(test_key(1), region.slice(0, kPageBytes), *other);
  EXPECT_TRUE(eventually([&] { return status().sources == 1; }));
  other.reset();
  EXPECT_TRUE(eventually([&] { return status().sources == 0; }));
}

TEST_F(SourcePut, ANodeThatWasStartedAgainIsToldAgain) {
  const Region region = shared_with_node();
  cluster_.restart();
  write(3, 3);
  EXPECT_TRUE(eventually([&] {
    return put(test_key(3), region.slice(3 * kPageBytes, kPageBytes)).code == Code::kOk &&
           status().puts_in_place > 0;
  }));
  EXPECT_TRUE(lands(test_key(3), 3));
}

TEST_F(SourcePut, MoreMemoryThanTheNodeTakesGoesThroughTheStaging) {
  constexpr uint32_t kRegions = kMaxSources + 1;
  const SharedPool pool(kRegions * kPageBytes);
  std::vector<Region> regions;
  for (uint32_t i = 0; i < kRegions; ++i) {
    regions.push_back(client_->register_memory({pool.data() + i * kPageBytes, kPageBytes}).value());
    std::ranges::copy(bytes_of(i), regions[i].data());
  }
  const auto put_all = [&] {
    for (const Region& region : regions) {
      const uint64_t number = static_cast<uint64_t>(region.data() - pool.data()) / kPageBytes;
      EXPECT_EQ(put(test_key(number), region.slice(0, kPageBytes)).code, Code::kOk);
    }
  };
  put_all();
  EXPECT_EQ(status().sources, 0u);  // none was put from twice
  EXPECT_TRUE(eventually([&] {
    const uint64_t before = status().puts_in_place;
    put_all();
    return status().puts_in_place - before == kMaxSources;
  }));
  EXPECT_EQ(status().sources, kMaxSources);
  for (uint32_t i = 0; i < kRegions; ++i) EXPECT_TRUE(lands(test_key(i), i));
}

// A node of an earlier version says nothing of sources, as does one of another backend.
TEST(SourcePutOverTcp, NothingIsReadInPlace) {
  Cluster cluster(Path::kTcp);
  const auto client = cluster.connect();
  const SharedPool pool(kPageBytes);
  const auto region = client->register_memory({pool.data(), pool.bytes()}).value();
  const PutRequest request = {test_key(1), region.slice(0, kPageBytes)};
  const uint64_t deadline = client->clock().now_ns() + kPatientNs;
  EXPECT_EQ(client->put({&request, 1}, deadline).wait()[0].code, Code::kOk);
  EXPECT_EQ(client->node_status(deadline).value().sources, 0u);
  EXPECT_EQ(client->node_status(deadline).value().puts_in_place, 0u);
}

}  // namespace
}  // namespace farpage
