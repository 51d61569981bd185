#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kStagingBytes = 4096;
constexpr uint64_t kLongNs = 60 * kSecond;

// The sentences of puts and removes that no node acknowledges, in virtual time.
class WhyNotAcknowledged : public ::testing::Test {
 protected:
  static ClientOptions options() {
    ClientOptions options;
    options.staging_bytes = kStagingBytes;
    return options;
  }

  void SetUp() override { ASSERT_EQ(engine_.put(key_, 1).code, Code::kOk); }

  uint64_t now() const { return cluster_.now_ns(); }

  Put put(uint64_t in_ns, uint64_t bytes = kPageBytes) {
    Slice source = engine_.slice(0);
    source.bytes = bytes;
    const PutRequest request = {key_, source};
    return client_->put({&request, 1}, now() + in_ns);
  }
  void expect_put(Put put, Code code, const ::testing::Matcher<std::string>& why) {
    EXPECT_EQ(put.wait()[0].code, code) << code_name(put.wait()[0].code);
    EXPECT_THAT(put.why(), why);
  }
  void expect_remove(Remove remove, Code code, const ::testing::Matcher<std::string>& why) {
    const Result<uint64_t> removed = remove.wait();
    ASSERT_FALSE(removed);
    EXPECT_EQ(removed.error().code, code) << code_name(removed.error().code);
    EXPECT_THAT(removed.error().message, why);
  }
  Remove remove(uint64_t in_ns) { return client_->remove({&key_, 1}, now() + in_ns); }

  SimCluster cluster_{1, {}};
  std::unique_ptr<Client> client_ = cluster_.connect(0, options()).value();
  Engine engine_{*client_, kPageBytes, 8};
  const PageKey key_ = test_key(1);
};

TEST_F(WhyNotAcknowledged, NodeThatDoesNotAnswerByTheDeadline) {
  cluster_.silence_links();
  expect_put(put(kMillisecond), Code::kTimeout,
             AllOf(HasSubstr("memory node"), HasSubstr("did not answer the commit")));
  expect_remove(remove(kMillisecond), Code::kTimeout,
                AllOf(HasSubstr("memory node"), HasSubstr("did not acknowledge the remove")));
}

TEST_F(WhyNotAcknowledged, LeaseThatEndsBeforeTheAnswer) {
  cluster_.silence_links();
  const uint64_t lease_end_ns = now() + small_sim_node().lease_ms * kMillisecond;
  Put put = this->put(kLongNs);
  Remove remove = this->remove(kLongNs);
  expect_put(std::move(put), Code::kTimeout, HasSubstr("ended before it answered the commit"));
  expect_remove(std::move(remove), Code::kUnavailable,
                HasSubstr("ended before it answered the remove"));
  EXPECT_LE(now(), lease_end_ns + kMillisecond);
}

TEST_F(WhyNotAcknowledged, ConnectionThatClosesUnderWay) {
  cluster_.set_control_delay(kMillisecond, kMillisecond);
  Put put = this->put(kLongNs);
  Remove remove = this->remove(kLongNs);
  cluster_.cut_links();
  expect_put(std::move(put), Code::kTimeout, HasSubstr("ended before it answered the commit"));
  expect_remove(std::move(remove), Code::kUnavailable,
                HasSubstr("ended before it answered the remove"));
}

TEST_F(WhyNotAcknowledged, NodeThatIsNotReached) {
  cluster_.end_node(NodeEnd::kStopped);
  ASSERT_TRUE(cluster_.world().wait_until(now() + kLongNs, [&] { return !client_->reachable(); }));
  expect_put(put(kMillisecond), Code::kUnavailable, HasSubstr("memory node"));
  expect_remove(remove(kMillisecond), Code::kUnavailable, HasSubstr("memory node"));
}

TEST_F(WhyNotAcknowledged, BytesThatDoNotArriveInTime) {
  cluster_.set_network({.delay_min_ns = kSecond, .delay_max_ns = kSecond});
  expect_put(put(kMillisecond), Code::kTimeout,
             AllOf(HasSubstr("did not reach"), HasSubstr("memory node")));
}

TEST_F(WhyNotAcknowledged, EarlierPutsThatHoldTheStaging) {
  cluster_.silence_links();
  std::vector<Put> earlier;
  for (uint64_t bytes = 0; bytes < kStagingBytes; bytes += kPageBytes) {
    earlier.push_back(put(kMillisecond));
  }
  expect_put(put(kMillisecond), Code::kTimeout, HasSubstr("earlier puts hold the staging"));
}

TEST_F(WhyNotAcknowledged, PageThatFitsNowhere) {
  expect_put(put(kMillisecond, kPageBytes + 1), Code::kInvalid,
             AllOf(HasSubstr("513"), HasSubstr("512")));
}

}  // namespace
}  // namespace farpage
