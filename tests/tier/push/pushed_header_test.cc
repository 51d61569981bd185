#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "replay/page_content.h"
#include "sim/sim_cluster.h"
#include "tests/support/engine.h"
#include "tests/support/recorded_metrics.h"
#include "tests/tier/spoiling_fabric.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kPatienceNs = kMillisecond;
constexpr uint32_t kLie = UINT32_MAX;

// The host's own runtime, but that somebody is called at each look at the clock.
class ObservedClockRuntime final : public Runtime {
 public:
  explicit ObservedClockRuntime(Runtime& inner) : inner_(inner), clock_(inner.clock(), on_look) {}

  const Clock& clock() const override { return clock_; }
  void after(uint64_t delay_ns, std::function<void()> callback) override {
    inner_.after(delay_ns, std::move(callback));
  }
  void offload(JobClass job, std::function<void()> work) override {
    inner_.offload(job, std::move(work));
  }
  bool wait_until(uint64_t deadline_ns, const std::function<bool()>& ready) override {
    return inner_.wait_until(deadline_ns, ready);
  }
  void wake() override { inner_.notify(); }

  std::function<void()> on_look;

 private:
  struct ObservedClock : Clock {
    const Clock& inner;
    const std::function<void()>& on_look;
    ObservedClock(const Clock& clock, const std::function<void()>& told)
        : inner(clock), on_look(told) {}
    uint64_t now_ns() const override {
      if (on_look) on_look();
      return inner.now_ns();
    }
  };

  Runtime& inner_;
  ObservedClock clock_;
};

// A node that is faulty, or hostile, and goes on writing into a place whose group it has said is
// there.
class PushedHeader : public testing::Test {
 protected:
  static SimClusterOptions options() {
    SimClusterOptions options;
    options.clients = 2;
    return options;
  }
  PushedHeader() {
    Engine writer(*first_, kPageBytes, 1);
    put_ = writer.put(test_key(1), 1);
    EXPECT_EQ(put_.code, Code::kOk);
  }

  std::unique_ptr<Client> connect_second() {
    ClientOptions options;
    options.staging_bytes = 64 * kKiB;
    const Fleet fleet = cluster_.fleet_for_client(1);
    return Client::connect(options, runtime_, fabric_, fleet.dialer(fleet.list.members[0].node))
        .value();
  }
  uint64_t now() const { return cluster_.now_ns(); }
  Push push() {
    verdict_ = {};
    Push push = lane_.push({&request_, 1}, {&verdict_, 1}, now() + kPatienceNs);
    push.wait();
    return push;
  }
  // A reader of this verdict relies on it, whatever the header says by now.
  void expect_as_put(const Push& push) const {
    ASSERT_EQ(verdict_.verdict, Verdict::kReady);
    EXPECT_EQ(verdict_.version, put_.version);
    ASSERT_EQ(push.payload(0).size(), kPageBytes);
    std::vector<std::byte> whole(kPageBytes);
    fill_page(whole, test_key(1), 1);
    EXPECT_TRUE(std::ranges::equal(push.payload(0), whole));
  }
  void expect_counted_bytes() const {
    RecordedMetrics metrics;
    second_->describe(metrics);
    EXPECT_EQ(metrics.values["farpage_client_ready_bytes_total"],
              metrics.values["farpage_client_ready_pages_total"] * kPageBytes);
  }

  SimCluster cluster_{1, options()};
  ObservedClockRuntime runtime_{cluster_.client_fabric(1).runtime()};
  SpoilingFabric fabric_{cluster_.client_fabric(1)};
  std::unique_ptr<Client> first_ = cluster_.connect(0).value();
  std::unique_ptr<Client> second_ = connect_second();
  PushLane lane_ = second_->open_push_lane({.pages = 1, .group_pages = 1}).value();
  PushedPage request_ = {test_key(1), 0, 0};
  PageVerdict verdict_;
  PutResult put_;
};

TEST_F(PushedHeader, PageIsAsLongAsItWasJudgedWhateverIsWrittenThereSince) {
  PageHeader* header = nullptr;
  fabric_.spoil = [&](std::byte* place) { header = reinterpret_cast<PageHeader*>(place); };
  const Push ready = push();
  expect_as_put(ready);
  ASSERT_NE(header, nullptr);
  header->payload_bytes = kLie;
  header->version = put_.version + 1;
  expect_as_put(ready);
}

// At each look at the clock, one after the other, on the way from the arrival to the verdict.
TEST_F(PushedHeader, VerdictIsOfTheHeaderThatWasJudged) {
  constexpr int kMostLooks = 8;
  uint64_t ready = 0;
  uint64_t corrupt = 0;
  for (int until_change = 1; until_change <= kMostLooks; ++until_change) {
    SCOPED_TRACE(until_change);
    bool changed = false;
    fabric_.spoil = [&, looks = 0](std::byte* place) mutable {
      if (looks > 0) return;
      runtime_.on_look = [&, place] {
        if (++looks != until_change) return;
        auto& header = *reinterpret_cast<PageHeader*>(place);
        header.version += 1;
        header.payload_bytes = kLie;
        changed = true;
      };
    };
    const Push pushed = push();
    runtime_.on_look = nullptr;
    if (verdict_.verdict == Verdict::kReady) {
      expect_as_put(pushed);
      ready += changed ? 1 : 0;
    } else {
      EXPECT_EQ(verdict_.reason, Reason::kCorrupt);
      ++corrupt;
    }
  }
  EXPECT_GT(ready, 0u) << "it never changed after it was judged";
  EXPECT_GT(corrupt, 0u) << "it never changed before it was judged";
  expect_counted_bytes();
}

// Between any two loads of the judge: its length alternates with one that leads far beyond the
// place, from when it lands until it has its verdict.
TEST_F(PushedHeader, LengthThatAlternatesIsReadOnce) {
  std::atomic<uint64_t*> target{nullptr};  // the word of length and checksum
  std::atomic<bool> idle{true};
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over) {
      uint64_t* const word = target;
      if (word == nullptr) {
        std::this_thread::yield();
        continue;
      }
      const std::atomic_ref<uint64_t> length_and_crc(*word);
      const uint64_t truth = length_and_crc;
      idle = false;
      while (target != nullptr) {
        length_and_crc = truth | kLie;
        length_and_crc = truth;
      }
      idle = true;
    }
  });
  fabric_.spoil = [&](std::byte* place) {
    target = reinterpret_cast<uint64_t*>(place + offsetof(PageHeader, payload_bytes));
    while (idle) std::this_thread::yield();
  };
  for (int round = 0; round < 200; ++round) {
    const Push pushed = push();
    target = nullptr;
    while (!idle) std::this_thread::yield();
    if (verdict_.verdict == Verdict::kReady) {
      expect_as_put(pushed);
    } else {
      EXPECT_EQ(verdict_.reason, Reason::kCorrupt);
    }
  }
  over = true;
  writer.join();
  expect_counted_bytes();
}

}  // namespace
}  // namespace farpage
