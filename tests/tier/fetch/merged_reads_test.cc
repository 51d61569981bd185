#include <gtest/gtest.h>

#include "sim/sim_cluster.h"
#include "tests/support/engine.h"
#include "transport/forwarding_fabric.h"
#include "transport/forwarding_initiator.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr size_t kPages = 8;

// Its reads are one transfer with all that are posted beside them, unless they are to be alone:
// where one of them goes to the refused place, all of them fail.
class MergingFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;

  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    auto initiator = ForwardingFabric::connect(std::move(offer), deadline_ns);
    if (!initiator) return initiator;
    return std::make_unique<MergingInitiator>(std::move(*initiator), *this);
  }

  const std::byte* refused = nullptr;
  size_t merged_failures = 0;

 private:
  class MergingInitiator final : public ForwardingInitiator {
   public:
    MergingInitiator(std::unique_ptr<Initiator> initiator, MergingFabric& fabric)
        : ForwardingInitiator(std::move(initiator)), fabric_(fabric) {}

    size_t room() const override { return ForwardingInitiator::room() - written_.size(); }
    Operation& next() override { return written_.emplace_back(); }
    Status post() override {
      const auto is_refused = [this](const Operation& operation) {
        return operation.local_count > 1 && operation.local[1].data == fabric_.refused;
      };
      const bool all_fail = std::ranges::any_of(written_, [&](const Operation& operation) {
        return is_refused(operation) && !operation.alone;
      });
      for (const Operation& operation : written_) {
        if (is_refused(operation) || (all_fail && !operation.alone)) {
          fabric_.merged_failures += is_refused(operation) ? 0 : 1;
          failed_.push_back(operation.tag);
        } else {
          ForwardingInitiator::next() = operation;
        }
      }
      written_.clear();
      return ForwardingInitiator::post();
    }
    size_t poll(std::span<Completion> completions) override {
      size_t count = 0;
      for (; count < completions.size() && !failed_.empty(); ++count) {
        completions[count] = {};
        completions[count].outcome = Outcome::kFailed;
        completions[count].tag = failed_.back();
        failed_.pop_back();
      }
      return count + ForwardingInitiator::poll(completions.subspan(count));
    }
    void wait(uint64_t deadline_ns) override {
      if (failed_.empty()) ForwardingInitiator::wait(deadline_ns);
    }

   private:
    MergingFabric& fabric_;
    std::vector<Operation> written_;
    std::vector<uint64_t> failed_;
  };
};

TEST(MergedReads, ARefusedPageCostsNoneOfThoseItWasMergedWith) {
  SimCluster cluster(1, {});
  MergingFabric fabric(cluster.client_fabric(0));
  const auto client = cluster.connect(0, {}, &fabric).value();
  Engine engine(*client, kPageBytes, kPages);
  std::vector<PageRequest> requests;
  for (size_t page = 0; page < kPages; ++page) {
    ASSERT_EQ(engine.put(test_key(page), 1).code, Code::kOk);
    requests.push_back({test_key(page), 0, engine.slice(page)});
  }
  constexpr size_t kRefused = 5;
  fabric.refused = engine.frame(kRefused).data();
  std::vector<PageVerdict> verdicts(kPages);
  engine.lane().fetch(requests, verdicts, engine.deadline(10 * kMillisecond)).wait();
  EXPECT_GT(fabric.merged_failures, 0u);
  for (size_t page = 0; page < kPages; ++page) {
    if (page == kRefused) {
      EXPECT_EQ(verdicts[page].reason, Reason::kUnreachable);
    } else {
      EXPECT_EQ(verdicts[page].verdict, Verdict::kReady) << page;
      EXPECT_EQ(engine.put_number_of(test_key(page), page), 1) << page;
    }
  }
}

}  // namespace
}  // namespace farpage
