#include "chaos/campaign.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <new>

#include "base/check.h"
#include "base/log.h"
#include "chaos/campaign_options.h"
#include "chaos/shrink.h"

namespace farpage::chaos {
namespace {

constexpr size_t kMostFailures = 64;  // that are kept; all are counted
constexpr size_t kMostShrinkRuns = 400;
constexpr auto kLongestShrink = std::chrono::minutes(3);  // of real time: a run may hang
constexpr uint64_t kMostJobs = 256;
constexpr unsigned kLongestRunS = 60;  // of real time; one that hangs is ended, and has crashed
constexpr int kFailed = 1;
constexpr int kCrashed = 2;

// Of one process, in memory that it shares with the one that started it.
struct Worker {
  RunCounts counts;
  std::atomic<uint64_t> running;  // the seed; 0: none
  std::array<uint64_t, kMostFailures> failed;
  std::atomic<uint64_t> failures;
};

struct Shared {
  std::atomic<uint64_t> next;  // seeds taken so far
  std::atomic<bool> stop;
  std::array<Worker, kMostJobs> workers;
};

void note_failure(Worker& worker, uint64_t seed) {
  const uint64_t at = worker.failures.load();
  if (at < kMostFailures) worker.failed[at] = seed;
  worker.failures.store(at + 1);
}

int work(const CampaignOptions& options, Shared& shared, Worker& worker) {
  while (!shared.stop.load()) {
    const uint64_t taken = shared.next.fetch_add(1);
    if (taken >= options.seeds) return 0;
    const uint64_t seed = options.seed + taken;
    worker.running.store(seed);
    const Plan plan = draw_plan(seed, options.plan);
    ::alarm(kLongestRunS);
    const RunResult run = run_plan(plan);
    ::alarm(0);
    worker.counts += run;
    if (!run.findings.empty()) {
      note_failure(worker, seed);
      if (options.until_first_failure) shared.stop.store(true);
    }
    worker.running.store(0);
  }
  return 0;
}

// In a process that ends with its parent; what it returns is its exit code.
template <typename Work>
pid_t start_process(const Work& work) {
  const pid_t child = ::fork();
  FARPAGE_CHECK(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(work());
  }
  return child;
}

// 0: the plan holds.
int verdict_of(const Plan& plan) {
  const pid_t child = start_process([&plan] {
    ::alarm(kLongestRunS);
    return run_plan(plan).findings.empty() ? 0 : kFailed;
  });
  int status = 0;
  FARPAGE_CHECK(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kCrashed;
}

Failure describe_failure(uint64_t seed, const PlanOptions& options) {
  const Plan plan = draw_plan(seed, options);
  const int verdict = verdict_of(plan);
  const auto end = std::chrono::steady_clock::now() + kLongestShrink;
  const auto fails = [verdict, end](const Plan& shorter) {
    return std::chrono::steady_clock::now() < end && verdict_of(shorter) == verdict;
  };
  const Plan shortest = verdict == 0 ? plan : shrink(plan, fails, kMostShrinkRuns);
  Failure failure;
  failure.seed = seed;
  failure.what = "the process has ended";
  if (verdict == 0) failure.what = "it did not fail again";
  if (verdict == kFailed) {
    const std::vector<Finding> findings = run_plan(shortest).findings;
    failure.what = "it did not fail again";
    if (!findings.empty()) failure.what = describe(findings.front());
  }
  for (const Action& action : shortest.actions) failure.plan.push_back(describe(action));
  return failure;
}

}  // namespace

Result<void> CampaignOptions::validate() const {
  if (seeds == 0) return fail(Code::kInvalid, "no seeds: choose at least 1");
  if (jobs == 0 || jobs > kMostJobs) {
    return fail(Code::kInvalid, fmt::format("{} jobs: choose 1 to {}", jobs, kMostJobs));
  }
  return check_cluster_size(plan.clients, plan.nodes, plan.replicas);
}

std::vector<std::string_view> CampaignResult::never_caught() const {
  std::vector<std::string_view> never;
  for (Kind kind = 0; kind < kKinds; ++kind) {
    if (counts.injected[kind] < kManyTimes || counts.caught[kind] > 0) continue;
    never.push_back(kind_name(kind));
  }
  return never;
}

CampaignResult run_campaign(const CampaignOptions& options,
                            const std::function<void(uint64_t)>& progress) {
  silence_warnings();
  const auto began = std::chrono::steady_clock::now();
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FARPAGE_CHECK(memory != MAP_FAILED);
  auto& shared = *new (memory) Shared{};
  std::array<pid_t, kMostJobs> children{};
  const auto start = [&](uint64_t job) {
    children[job] = start_process([&] { return work(options, shared, shared.workers[job]); });
  };
  for (uint64_t job = 0; job < options.jobs; ++job) start(job);
  for (uint64_t alive = options.jobs; alive > 0;) {
    for (uint64_t job = 0; job < options.jobs; ++job) {
      int status = 0;
      if (children[job] == 0 || ::waitpid(children[job], &status, WNOHANG) == 0) continue;
      Worker& worker = shared.workers[job];
      children[job] = 0;
      --alive;
      if (const uint64_t seed = worker.running.exchange(0); seed != 0) {
        ++worker.counts.crashed;
        note_failure(worker, seed);
        if (options.until_first_failure) shared.stop.store(true);
      }
      if (shared.stop.load() || shared.next.load() >= options.seeds) continue;
      start(job);
      ++alive;
    }
    progress(std::min(shared.next.load(), options.seeds));
    const timespec pause = {0, 20'000'000};
    ::nanosleep(&pause, nullptr);
  }

  CampaignResult result;
  result.options = options;
  for (uint64_t job = 0; job < options.jobs; ++job) {
    const Worker& worker = shared.workers[job];
    result.counts += worker.counts;
    const auto kept = std::min<uint64_t>(worker.failures.load(), kMostFailures);
    result.failed_seeds.insert(result.failed_seeds.end(), worker.failed.begin(),
                               worker.failed.begin() + static_cast<ptrdiff_t>(kept));
  }
  std::ranges::sort(result.failed_seeds);
  ::munmap(memory, sizeof(Shared));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (!result.holds()) result.first = describe_failure(result.failed_seeds[0], options.plan);
  return result;
}

}  // namespace farpage::chaos
