#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/support/allocations.h"
#include "tests/support/cluster.h"
#include "tests/support/engine.h"
#include "tier/ahead/page_fetches.h"
#include "tier/ahead/prefetch_lane.h"
#include "tier/link/page_reports.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kBatch = 1000;

// A node with a thousand pages, and fetches of them that have been done before.
class HotPath {
 public:
  explicit HotPath(Path path) : cluster_(path, options()) {
    for (size_t page = 0; page < kBatch; ++page) {
      const PutResult put = engine_.put(test_key(page), page);
      EXPECT_EQ(put.code, Code::kOk);
      requests_.push_back({test_key(page), 0, engine_.slice(page)});
      keys_.push_back(test_key(page));
    }
    verdicts_.resize(kBatch);
    answers_.resize(kBatch);
    for (int i = 0; i < 3; ++i) {
      warm_batch();
      warm_single();
      cold();
    }
  }

  size_t warm_single() { return fetch(1); }
  size_t warm_batch() { return fetch(kBatch); }

  // Whether all pages are there; how many are.
  size_t ask() {
    engine_.lane().ask(keys_, answers_, deadline()).wait();
    return static_cast<size_t>(std::ranges::count(answers_, KeyAnswer::kShown));
  }

  // Each page in a fetch of its own, all at one time, of which so many are expected.
  size_t many(uint32_t expected, uint64_t& allocations) {
    PageFetches fetches(engine_.lane(), expected);
    size_t ready = 0;
    allocations = allocations_of([&] {
      for (uint32_t i = 0; i < expected; ++i) fetches.begin(i, requests_[i], deadline());
      while (fetches.under_way() > 0) {
        fetches.progress();
        while (const auto ended = fetches.next()) {
          ready += ended->verdict.verdict == Verdict::kReady;
        }
      }
    });
    return ready;
  }

  // On a client that has no room to remember where pages are, so that each fetch is cold.
  size_t cold() {
    cold_lane_.fetch(std::span(cold_requests_), std::span(cold_verdicts_), deadline()).wait();
    size_t ready = 0;
    for (const PageVerdict& verdict : cold_verdicts_) ready += verdict.verdict == Verdict::kReady;
    return ready;
  }

  uint64_t index_looks() const { return cold_lane_.stats().index_looks; }

 private:
  static NodeOptions options() {
    NodeOptions options = Cluster::small_options();
    options.pool_bytes = 2 * kBatch * (kPageBytes + sizeof(PageHeader));
    options.lease_ms = 60'000;
    return options;
  }
  uint64_t deadline() const { return engine_.deadline(10 * kSecond); }
  size_t fetch(size_t pages) {
    engine_.lane()
        .fetch(std::span(requests_).first(pages), std::span(verdicts_).first(pages), deadline())
        .wait();
    size_t ready = 0;
    for (size_t i = 0; i < pages; ++i) ready += verdicts_[i].verdict == Verdict::kReady;
    return ready;
  }

  Cluster cluster_;
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, kBatch};
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  std::vector<PageKey> keys_;
  std::vector<KeyAnswer> answers_;

  static ClientOptions forgetful() {
    ClientOptions options;
    options.location_pages = 1;
    return options;
  }
  std::unique_ptr<Client> cold_client_ = cluster_.connect(forgetful());
  std::vector<std::byte> cold_memory_ = std::vector<std::byte>(kPageBytes * 100);
  Region cold_region_ =
      cold_client_->register_memory({cold_memory_.data(), cold_memory_.size()}).value();
  Lane cold_lane_ = cold_client_->open_lane().value();
  std::vector<PageRequest> cold_requests_ = [this] {
    std::vector<PageRequest> requests;
    for (size_t i = 0; i < 100; ++i) {
      requests.push_back({test_key(i), 0, cold_region_.slice(i * kPageBytes, kPageBytes)});
    }
    return requests;
  }();
  std::vector<PageVerdict> cold_verdicts_ = std::vector<PageVerdict>(100);
};

class HotPathTest : public testing::TestWithParam<Path> {};

INSTANTIATE_TEST_SUITE_P(Paths, HotPathTest, testing::Values(Path::kShm, Path::kTcp), path_name);
#ifdef FARPAGE_HAS_UCX
INSTANTIATE_TEST_SUITE_P(Ucx, HotPathTest, testing::Values(Path::kUcx), path_name);
#endif

TEST_P(HotPathTest, FetchAllocatesNothing) {
  HotPath path(GetParam());
  const uint64_t looks = path.index_looks();
  size_t single = 0;
  size_t batch = 0;
  size_t cold = 0;
  EXPECT_EQ(allocations_of([&] {
              single = path.warm_single();
              batch = path.warm_batch();
              cold = path.cold();
            }),
            0u);
  EXPECT_EQ(single, 1u);
  EXPECT_EQ(batch, kBatch);
  EXPECT_EQ(cold, 100u);
  EXPECT_GT(path.index_looks() - looks, 80u);
}

TEST_P(HotPathTest, QuestionOfTheIndexAllocatesNothing) {
  HotPath path(GetParam());
  EXPECT_EQ(path.ask(), kBatch);
  size_t shown = 0;
  EXPECT_EQ(allocations_of([&] { shown = path.ask(); }), 0u);
  EXPECT_EQ(shown, kBatch);
}

// As lanes report them to the link of a node.
TEST(NoAllocation, FloodOfStalePagesAllocatesNothing) {
  PageReports reports;
  uint64_t passed = 0;
  EXPECT_EQ(allocations_of([&] {
              for (uint64_t i = 0; i < 1'000'000; ++i) {
                passed += reports.add({i * 0x9e3779b97f4a7c15, i}, 5 * kSecond + i);
              }
            }),
            0u);
  EXPECT_EQ(passed, PageReports::kMostKeys);
}

// Not even the first time that so many are under way.
TEST_P(HotPathTest, AsManyFetchesAsAreExpectedAllocateNothing) {
  HotPath path(GetParam());
  for (const uint32_t expected : {Lane::kWindow, 4 * Lane::kWindow}) {
    uint64_t allocations = 0;
    EXPECT_EQ(path.many(expected, allocations), expected);
    EXPECT_EQ(allocations, 0u) << expected;
  }
}

// Names what was accessed last, and allocates nothing.
class LastAccessed final : public prefetch::Prefetcher {
 public:
  void on_access(const prefetch::Access& access) override {
    last_[at_++ % last_.size()] = access.page;
  }
  size_t candidates(std::span<prefetch::PageNumber> pages) override {
    const size_t count = std::min({pages.size(), last_.size(), at_});
    std::copy_n(last_.begin(), count, pages.begin());
    return count;
  }

 private:
  std::array<prefetch::PageNumber, 32> last_{};
  size_t at_ = 0;
};

// An engine that decodes with a prefetch lane: each step it tells what it accessed, and demands
// pages of which some are here, some under way and some neither.
class Decode {
 public:
  explicit Decode(Path path) : cluster_(path, Cluster::small_options()) {
    for (size_t page = 0; page < kPages; ++page) {
      EXPECT_EQ(engine_.put(test_key(page), page).code, Code::kOk);
      accesses_.push_back({.key = test_key(page)});
      keys_.push_back(test_key(page));
      requests_.push_back({test_key(page), 0, engine_.slice(page)});
    }
  }

  void step() {
    ++step_;
    for (ObservedAccess& access : accesses_) access.step = step_;
    lane_.observe(std::span(accesses_).subspan(step_ % 4, kPages / 2));
    lane_.announce(std::span(keys_).last(8));
    lane_.mark_milestone(keys_[step_ % kPages]);
    for (uint64_t turn = 0; turn < step_ % 50; ++turn) lane_.progress();
    {
      DemandFetch fetch = lane_.fetch(requests_, verdicts_, engine_.deadline(10 * kSecond),
                                      {.fetch = {}, .allow_cached = step_ % 2 == 0});
      fetch.wait();
    }
    for (const PageVerdict& verdict : verdicts_) ready_ += verdict.verdict == Verdict::kReady;
    lane_.withdraw(keys_);
  }
  uint64_t ready() const { return ready_; }
  PrefetchReport report() const { return lane_.report(); }

  static constexpr size_t kPages = 64;

 private:
  Cluster cluster_;
  std::unique_ptr<Client> client_ = cluster_.connect();
  Engine engine_{*client_, kPageBytes, kPages};
  PrefetchLane lane_ =
      PrefetchLane::open(*client_, PrefetchOptions(), std::make_unique<LastAccessed>()).value();
  std::vector<ObservedAccess> accesses_;
  std::vector<PageKey> keys_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_ = std::vector<PageVerdict>(kPages);
  uint64_t step_ = 0;
  uint64_t ready_ = 0;
};

TEST_P(HotPathTest, FetchingAheadAllocatesNothing) {
  constexpr uint64_t kSteps = 500;
  Decode decode(GetParam());
  for (uint64_t step = 0; step < kSteps; ++step) decode.step();
  const PrefetchReport before = decode.report();
  EXPECT_EQ(allocations_of([&] {
              for (uint64_t step = 0; step < kSteps; ++step) decode.step();
            }),
            0u);
  EXPECT_EQ(decode.ready(), 2 * kSteps * Decode::kPages);
  EXPECT_GT(decode.report().pages.timely, before.pages.timely);
  EXPECT_GT(decode.report().pages.late, before.pages.late);
}

TEST(HotPath, CountingCountsAllocations) {
  EXPECT_EQ(allocations_of([] {
              const std::unique_ptr<int> one(new int(1));
              void* volatile two = ::malloc(10);
              ::free(two);
            }),
            2u);
}

std::atomic<int> trapped{0};
std::atomic<int> last_trapped{-1};

void count_trap(int, siginfo_t* info, void*) {
  ++trapped;
  last_trapped = info->si_syscall;
}

// From now on every system call of this thread but those that the end needs is trapped.
void trap_system_calls() {
  struct sigaction action = {};
  action.sa_sigaction = count_trap;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGSYS, &action, nullptr), 0);
  const auto allow = [](uint32_t number, uint8_t skip) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, skip, 0);
  };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      allow(SYS_exit, 3),
      allow(SYS_exit_group, 2),
      allow(SYS_rt_sigreturn, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
}

struct TrapCount {
  int during_fetches;
  int of_getppid;
};

// The filter stays on a thread for good, so that thread counts, tells and is left alone.
TEST(HotPath, FetchMakesNoSystemCall) {
  static std::atomic<bool> counted{false};
  static TrapCount count;
  static size_t ready = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    // One process for the whole of it: its threads, and a filter that nothing takes away again.
    HotPath path(Path::kShm);
    std::thread fetcher([&path] {
      path.warm_single();
      trap_system_calls();
      ready = path.warm_single() + path.warm_batch() + path.cold();
      count.during_fetches = trapped;
      static_cast<void>(::syscall(SYS_getppid));
      count.of_getppid = trapped - count.during_fetches;
      counted = true;
      while (true) __builtin_ia32_pause();
    });
    while (!counted) std::this_thread::yield();
    const bool good = count.during_fetches == 0 && count.of_getppid == 1 && ready == kBatch + 101;
    if (!good) {
      std::fprintf(stderr, "%d system calls (the last: %d), getppid %d, ready %zu\n",
                   count.during_fetches, last_trapped.load(), count.of_getppid, ready);
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace farpage
