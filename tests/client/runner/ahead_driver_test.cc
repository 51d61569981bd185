#include "client/runner/ahead_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/engine.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint32_t kPages = 100;  // more than are copied in one turn

// A fetch of pages all of which have come ahead, and are not copied yet.
class AheadDriverTest : public testing::Test {
 protected:
  AheadDriverTest() {
    for (uint32_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(engine_.put(test_key(i), 7).code, Code::kOk);
      announced_.keys.push_back(test_key(i));
      fetch_.requests.push_back({test_key(i), 0, engine_.slice(1 + i)});
    }
    announced_.kind = SubmissionKind::kAnnounce;
    announced_.deadline_ns = fetch_.deadline_ns = engine_.deadline(60 * kSecond);
    EXPECT_FALSE(driver_.begin(announced_, [this] { ++turns_; }));
    drive_until([this] { return driver_.counts().fetched == kPages; });
    operation_ = driver_.begin(fetch_, [] {}).value();
    drive_until([this] { return operation_.fetch.done(); });
  }

  template <typename Ready>
  void drive_until(const Ready& ready) {
    while (!ready() && client_->clock().now_ns() < fetch_.deadline_ns) driver_.progress();
    ASSERT_TRUE(ready());
  }

  Cluster cluster_{Path::kShm, [] {
                     NodeOptions options = Cluster::small_options();
                     options.pool_bytes = 4 * kMiB;
                     return options;
                   }()};
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, 1 + kPages};
  AheadDriver driver_ = AheadDriver::open(*client_, {.pages = kPages}).value();
  Submission announced_;
  Submission fetch_;
  AheadDriver::Operation operation_;
  int turns_ = 0;
};

TEST_F(AheadDriverTest, IsDoneOnceEveryPageIsCopiedSomeInATurn) {
  EXPECT_FALSE(operation_.done());
  int turns = 0;
  while (driver_.go_on(operation_, fetch_)) ++turns;
  EXPECT_GT(turns, 1) << "other fetches have turns of their own between them";
  EXPECT_TRUE(operation_.done());
  EXPECT_EQ(driver_.counts().near, kPages);
  for (uint32_t i = 0; i < kPages; ++i) {
    EXPECT_EQ(engine_.put_number_of(test_key(i), 1 + i), 7u);
    EXPECT_EQ(fetch_.verdicts[i].landed, engine_.slice(1 + i).data);
  }
}

TEST_F(AheadDriverTest, CopiesNothingAfterTheDeadline) {
  EXPECT_TRUE(driver_.go_on(operation_, fetch_));
  const uint64_t copied = driver_.counts().near;
  EXPECT_LT(copied, kPages);
  std::ranges::fill(engine_.frame(kPages), std::byte{0xEE});
  fetch_.deadline_ns = client_->clock().now_ns();
  EXPECT_TRUE(driver_.go_on(operation_, fetch_));
  EXPECT_TRUE(operation_.done());
  EXPECT_EQ(driver_.counts().near, copied);
  driver_.finish(fetch_);
  EXPECT_EQ(driver_.counts().verdicts.stalled, kPages - copied);
  EXPECT_EQ(fetch_.verdicts.back().verdict, Verdict::kRecompute);
  EXPECT_EQ(fetch_.verdicts.back().reason, Reason::kStalled);
  EXPECT_TRUE(std::ranges::all_of(engine_.frame(kPages),
                                  [](std::byte byte) { return byte == std::byte{0xEE}; }));
}

TEST_F(AheadDriverTest, GivesOthersATurnWhileItHearsOfManyPages) {
  EXPECT_EQ(turns_, 1);
  announced_.kind = SubmissionKind::kWithdraw;
  announced_.keys.resize(3'000, test_key(0));
  EXPECT_FALSE(driver_.begin(announced_, [this] { ++turns_; }));
  EXPECT_EQ(turns_, 1 + 3);
}

}  // namespace
}  // namespace farpage
