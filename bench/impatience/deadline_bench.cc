#include "bench/impatience/deadline_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/random.h"
#include "bench/fill_node.h"
#include "bench/landing_memory.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"
#include "report/json.h"
#include "report/latency.h"
#include "report/verdicts_json.h"
#include "report/watchdog.h"

namespace farpage {
namespace {

class DeadlineBench {
 public:
  DeadlineBench(Client& client, std::span<const PageKey> keys, const Region& region, Lane& lane,
                const DeadlineBenchOptions& options)
      : client_(client),
        keys_(keys),
        lane_(lane),
        requests_(options.batch),
        verdicts_(options.batch) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      requests_[i].destination = region.slice(i * options.page_bytes, options.page_bytes);
    }
  }

  void fetch(DeadlineBenchResult& result) {
    for (PageRequest& request : requests_) request.key = keys_[random_.below(keys_.size())];
    const size_t turn = number_ % kBenchDeadlinesNs.size();
    const bool hedge = number_++ % 2 == 1;
    const uint64_t deadline = client_.clock().now_ns() + kBenchDeadlinesNs[turn];
    // Its destructor returns only when no destination can be written any more.
    Fetch fetch = lane_.fetch(requests_, verdicts_, deadline, {.hedge = hedge});
    fetch.wait();
    const uint64_t end = client_.clock().now_ns();
    ++result.fetches[turn];
    if (end >= deadline) result.lateness_ns.push_back(end - deadline);
    check(result);
  }

 private:
  void check(DeadlineBenchResult& result) const {
    for (size_t i = 0; i < verdicts_.size(); ++i) {
      if (verdicts_[i].verdict != Verdict::kReady) {
        ++result.recompute[static_cast<size_t>(verdicts_[i].reason)];
        continue;
      }
      ++result.ready;
      result.wrong_bytes += count_wrong_bytes({verdicts_[i].landed, requests_[i].destination.bytes},
                                              requests_[i].key, {1, 1});
    }
  }

  Client& client_;
  std::span<const PageKey> keys_;
  Lane& lane_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  Random random_{1};
  uint64_t number_ = 0;
};

uint64_t sum(std::span<const uint64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

Histogram histogram_of(std::span<const uint64_t> samples) {
  Histogram histogram;
  for (const uint64_t sample : samples) histogram.add(static_cast<double>(sample));
  return histogram;
}

}  // namespace

Result<void> DeadlineBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (batch == 0 || batch > pool_bytes / page_bytes) {
    return fail(Code::kInvalid,
                fmt::format("a fetch of {} pages: choose 1 to as many as --pool-bytes has", batch));
  }
  if (!(seconds > 0 && seconds <= 3600)) {
    return fail(Code::kInvalid, "choose more than 0 and at most 3600 seconds");
  }
  return {};
}

DeadlineJudgement judge_deadlines(const DeadlineBenchResult& result) {
  DeadlineJudgement judgement;
  judgement.measured = sum(result.fetches) > 0 && result.delay_ns.count() > 0;
  for (const uint64_t lateness : result.lateness_ns) {
    judgement.late += lateness > result.delay_most_ns ? 1 : 0;
    judgement.slowest_ns = std::max(judgement.slowest_ns, lateness);
  }
  return judgement;
}

Result<DeadlineBenchResult> run_deadline_bench(Client& client, const DeadlineBenchOptions& options,
                                               const std::function<bool()>& interrupted,
                                               const std::function<void()>& filled) {
  if (auto fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  const uint64_t pages = options.pool_bytes / options.page_bytes;
  const auto keys = fill_node(client, {options.name_space, options.page_bytes, pages}, interrupted,
                              [](uint64_t, uint64_t) {});
  if (!keys) return tl::unexpected(keys.error());
  DeadlineBenchResult result;
  result.interrupted = interrupted();
  if (result.interrupted) return result;
  const auto memory = LandingMemory::create(client, options.batch * options.page_bytes);
  if (!memory) return tl::unexpected(memory.error());
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  DeadlineBench bench(client, *keys, memory->region, *lane, options);
  Watchdog watchdog;
  filled();
  const auto seconds_ns = static_cast<uint64_t>(options.seconds * static_cast<double>(kSecond));
  const uint64_t end = client.clock().now_ns() + seconds_ns;
  while (client.clock().now_ns() < end && !(result.interrupted = interrupted())) {
    bench.fetch(result);
  }
  watchdog.stop();
  result.delay_ns.merge(watchdog.delay_ns());
  result.delay_most_ns = watchdog.most_ns();
  return result;
}

namespace json = boost::json;

json::object deadline_json(const DeadlineReport& report) {
  const DeadlineBenchResult& result = report.result;
  const DeadlineJudgement judgement = judge_deadlines(result);
  json::object by_deadline;
  for (size_t i = 0; i < kBenchDeadlinesNs.size(); ++i) {
    by_deadline[std::to_string(kBenchDeadlinesNs[i] / kMicrosecond)] = result.fetches[i];
  }
  return {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"configuration",
       {{"batch", report.options.batch},
        {"pool_bytes", report.options.pool_bytes},
        {"seconds", report.options.seconds}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", report.options.page_bytes},
      {"fetches", sum(result.fetches)},
      {"fetches_by_deadline_us", by_deadline},
      {"at_deadline", result.lateness_ns.size()},
      {"late", judgement.late},
      {"lateness_max_us", static_cast<double>(judgement.slowest_ns) / 1e3},
      {"lateness_us", latency_json(histogram_of(result.lateness_ns))},
      {"watchdog_delay_max_us", static_cast<double>(result.delay_most_ns) / 1e3},
      {"watchdog_delay_us", latency_json(result.delay_ns)},
      {"holds", judgement.holds()},
      {"verdicts", verdicts_json(result.ready, result.recompute)},
      {"wrong_bytes", result.wrong_bytes},
  };
}

std::string deadline_table(const DeadlineReport& report) {
  const DeadlineBenchResult& result = report.result;
  const DeadlineJudgement judgement = judge_deadlines(result);
  std::string text;
  const auto row = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path));
  for (size_t i = 0; i < kBenchDeadlinesNs.size(); ++i) {
    row(fmt::format("deadline {} ms", kBenchDeadlinesNs[i] / kMillisecond),
        fmt::format("{} fetches of {} pages of {}", result.fetches[i], report.options.batch,
                    format_bytes(report.options.page_bytes)));
  }
  row("pages", fmt::format("{} ready, {} to recompute", result.ready, sum(result.recompute)));
  row("judged at the deadline", fmt::format("{} fetches", result.lateness_ns.size()));
  row("after it by",
      fmt::format("{}, at most {:.1f} µs", latency_text(histogram_of(result.lateness_ns)),
                  static_cast<double>(judgement.slowest_ns) / 1e3));
  row("watchdog's delay", fmt::format("{}, at most {:.1f} µs", latency_text(result.delay_ns),
                                      static_cast<double>(result.delay_most_ns) / 1e3));
  row("later than its longest", fmt::format("{} fetches", judgement.late));
  return text;
}

}  // namespace farpage
