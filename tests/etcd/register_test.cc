#include "etcd/register.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <optional>
#include <string>

#include "etcd/json.h"
#include "net/runtime/asio_runtime.h"
#include "tests/etcd/scripted_etcd.h"

namespace farpage::etcd {
namespace {

constexpr const char* kPrefix = "/farpage/x/";
constexpr uint64_t kFleetId = 77;

// An etcd of a fleet of one node, in which a test writes.
class Store {
 public:
  Store() {
    Access access;
    access.endpoints = {etcd_.endpoint()};
    access.prefix = kPrefix;
    client_.emplace(std::move(access));
  }

  // Whatever it is that was written: the store's revision grows.
  void write(uint64_t epoch, uint64_t terms_id = kFleetId) {
    const std::lock_guard lock(mutex_);
    ++revision_;
    epoch_ = epoch;
    terms_id_ = terms_id;
  }
  int whole_reads() {
    const std::lock_guard lock(mutex_);
    return whole_reads_;
  }
  int small_reads() {
    const std::lock_guard lock(mutex_);
    return small_reads_;
  }
  void write_after_the_next_small_read(uint64_t epoch) {
    const std::lock_guard lock(mutex_);
    epoch_after_ = epoch;
  }
  Client& client() { return *client_; }

 private:
  std::string answer(const ScriptedEtcd::Request& request) {
    const std::lock_guard lock(mutex_);
    const bool whole =
        request.body.find(to_base64(kPrefix + std::string("epoch"))) != std::string::npos;
    ++(whole ? whole_reads_ : small_reads_);
    const Terms terms = {1000, 4096, 1, 0, terms_id_};
    const Epoch epoch = {epoch_, 1, 0, 4096, {{node_id("a"), 10, false, 7}}};
    std::string found = range(entry("terms", encode(terms)));
    if (whole) {
      const NodeRecord node = {"a", "tcp://127.0.0.1:1", 5};
      found += "," + range(entry("epoch", encode(epoch))) + "," +
               range(entry("confirmed/" + to_hex(node_id("a")), encode_confirmed(epoch_))) + "," +
               range(entry("nodes/a", encode(node))) + "," + range("");
    }
    const std::string said = R"({"header":{"cluster_id":"1","revision":")" +
                             std::to_string(revision_) + R"("},"succeeded":true,"responses":[)" +
                             found + "]}";
    if (!whole && epoch_after_) {
      ++revision_;
      epoch_ = *std::exchange(epoch_after_, std::nullopt);
    }
    return ScriptedEtcd::ok(said);
  }
  static std::string range(const std::string& entries) {
    return R"({"response_range":{"kvs":[)" + entries + "]}}";
  }
  static std::string entry(const std::string& key, const std::string& value) {
    return R"({"key":")" + to_base64(kPrefix + key) + R"(","value":")" + to_base64(value) +
           R"(","mod_revision":"3"})";
  }

  std::mutex mutex_;
  uint64_t revision_ = 50;
  uint64_t epoch_ = 4;
  uint64_t terms_id_ = kFleetId;
  std::optional<uint64_t> epoch_after_;
  int whole_reads_ = 0;
  int small_reads_ = 0;
  ScriptedEtcd etcd_{[this](const auto& request) { return answer(request); }};
  std::optional<Client> client_;
};

class Registers : public testing::Test {
 protected:
  ~Registers() override {
    runtime_.run([this] { register_.reset(); });
  }
  Result<RegisteredEpoch> read() {
    std::promise<Result<RegisteredEpoch>> answer;
    runtime_.after(0, [&] {
      register_->read([&](Result<RegisteredEpoch> read) { answer.set_value(std::move(read)); });
    });
    return answer.get_future().get();
  }

  Store store_;
  AsioRuntime runtime_;
  std::unique_ptr<Register> register_ = std::make_unique<Register>(
      runtime_, store_.client(), Register::Options{kFleetId, 10 * kSecond, {}});
};

TEST_F(Registers, AllIsReadOnlyIfSomethingWasWrittenSince) {
  const auto first = read();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->epoch.number, 4u);
  for (int i = 0; i < 5; ++i) {
    const auto again = read();
    ASSERT_TRUE(again);
    EXPECT_EQ(again->epoch, first->epoch);
    EXPECT_EQ(again->confirmed, first->confirmed);
  }
  EXPECT_EQ(store_.whole_reads(), 1);
  EXPECT_EQ(store_.small_reads(), 5);
  store_.write(5);
  EXPECT_EQ(read()->epoch.number, 5u);
  EXPECT_EQ(store_.whole_reads(), 2);
  store_.write(5);  // by somebody else, in the same etcd
  EXPECT_EQ(read()->epoch.number, 5u);
  EXPECT_EQ(store_.whole_reads(), 3);
  EXPECT_EQ(register_->address_of(node_id("a")), "tcp://127.0.0.1:1");
}

// What it answers was true between call and answer, and a write after the question may be missing.
TEST_F(Registers, WriteThatComesBetweenIsSeenByTheNextRead) {
  ASSERT_TRUE(read());
  store_.write_after_the_next_small_read(5);
  EXPECT_EQ(read()->epoch.number, 4u);
  EXPECT_EQ(read()->epoch.number, 5u);
}

TEST_F(Registers, AnotherFleetsDataIsRefusedAfterReadsThatSawNoChange) {
  ASSERT_TRUE(read());
  ASSERT_TRUE(read());
  store_.write(4, kFleetId + 1);
  for (int i = 0; i < 3; ++i) {
    const auto other = read();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, Code::kDenied);
  }
}

}  // namespace
}  // namespace farpage::etcd
