#include "bench/impatience/stale_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.h"
#include "bench/fill_node.h"
#include "bench/landing_memory.h"
#include "replay/page_fit.h"
#include "report/json.h"
#include "report/latency.h"
#include "report/verdicts_json.h"

namespace farpage {
namespace {

constexpr uint64_t kDeadlineNs = 30 * kSecond;
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr Version kTooNew = UINT64_MAX;

// One lane's pages, fetched over and over by a thread of its own.
class StaleLane {
 public:
  StaleLane(Client& client, std::span<const PageKey> keys, std::span<std::byte> memory,
            const Region& region, Lane lane, const StaleBenchOptions& options, uint64_t seed)
      : client_(client), keys_(keys), lane_(std::move(lane)), random_(seed) {
    const uint64_t stride = memory.size() / options.batch;
    const auto first = static_cast<uint64_t>(memory.data() - region.data());
    requests_.resize(options.batch);
    verdicts_.resize(options.batch);
    for (uint64_t i = 0; i < options.batch; ++i) {
      requests_[i] = {{}, kTooNew, region.slice(first + i * stride, options.page_bytes)};
    }
  }

  void run(const std::atomic<bool>& stopping) {
    while (!stopping.load(std::memory_order_relaxed)) {
      for (PageRequest& request : requests_) request.key = keys_[random_.below(keys_.size())];
      lane_.fetch(requests_, verdicts_, client_.clock().now_ns() + kDeadlineNs).wait();
      for (const PageVerdict& verdict : verdicts_) ++counts_[static_cast<size_t>(verdict.reason)];
    }
  }

  const std::array<uint64_t, kReasons>& counts() const { return counts_; }

 private:
  Client& client_;
  std::span<const PageKey> keys_;
  Lane lane_;
  Random random_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  std::array<uint64_t, kReasons> counts_ = {};
};

// How long a callback waits for the runtime's thread, at most until `end_ns`.
uint64_t callback_wait_ns(Runtime& runtime, uint64_t end_ns) {
  const auto ran_ns = std::make_shared<std::atomic<uint64_t>>(0);
  const uint64_t asked_ns = runtime.clock().now_ns();
  runtime.after(0, [ran_ns, &runtime] { ran_ns->store(runtime.clock().now_ns()); });
  while (ran_ns->load() == 0 && runtime.clock().now_ns() < end_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return (ran_ns->load() == 0 ? runtime.clock().now_ns() : ran_ns->load()) - asked_ns;
}

void look(Client& client, Runtime& runtime, uint64_t end_ns,
          const std::function<bool()>& interrupted, StaleBenchResult& result) {
  while (runtime.clock().now_ns() < end_ns && !(result.interrupted = interrupted())) {
    const uint64_t wait_ns = callback_wait_ns(runtime, end_ns);
    result.callback_wait_ns.add(static_cast<double>(wait_ns));
    result.longest_wait_ns = std::max(result.longest_wait_ns, wait_ns);
    result.unreachable_looks += client.reachable() ? 0 : 1;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

Result<void> StaleBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (batch == 0 || batch > 10'000 || lanes == 0 || lanes > 256) {
    return fail(Code::kInvalid, "choose 1 to 10000 pages a fetch, and 1 to 256 lanes");
  }
  if (pool_bytes < page_bytes) {
    return fail(Code::kInvalid, "the pool holds no page: choose a larger --pool-bytes");
  }
  if (!(seconds > 0 && seconds <= 3600)) {
    return fail(Code::kInvalid, "choose more than 0 and at most 3600 seconds");
  }
  return {};
}

Result<StaleBenchResult> run_stale_bench(Client& client, Runtime& runtime,
                                         const StaleBenchOptions& options,
                                         const std::function<bool()>& interrupted,
                                         const std::function<void(uint64_t, uint64_t)>& filled) {
  if (auto fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  const auto keys = fill_node(
      client, {options.name_space, options.page_bytes, options.pool_bytes / options.page_bytes},
      interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());
  StaleBenchResult result;
  if ((result.interrupted = interrupted())) return result;
  const uint64_t lane_bytes = options.batch * round_up(options.page_bytes, 64);
  const auto memory = LandingMemory::create(client, options.lanes * lane_bytes);
  if (!memory) return tl::unexpected(memory.error());
  std::vector<std::unique_ptr<StaleLane>> lanes;
  for (uint64_t i = 0; i < options.lanes; ++i) {
    auto lane = client.open_lane();
    if (!lane) return tl::unexpected(lane.error());
    const std::span<std::byte> part = {memory->region.data() + i * lane_bytes, lane_bytes};
    lanes.push_back(std::make_unique<StaleLane>(client, *keys, part, memory->region,
                                                std::move(*lane), options, 1 + i));
  }
  std::atomic<bool> stopping{false};
  const uint64_t began_ns = runtime.clock().now_ns();
  {
    std::vector<std::jthread> threads;
    for (const auto& lane : lanes) threads.emplace_back([&] { lane->run(stopping); });
    look(client, runtime,
         began_ns + static_cast<uint64_t>(options.seconds * static_cast<double>(kSecond)),
         interrupted, result);
    stopping = true;
  }
  const double took_s = static_cast<double>(runtime.clock().now_ns() - began_ns) * 1e-9;
  uint64_t pages = 0;
  for (const auto& lane : lanes) {
    for (size_t i = 0; i < result.verdicts.size(); ++i) {
      result.verdicts[i] += lane->counts()[i];
      pages += lane->counts()[i];
    }
  }
  result.pages_per_s = static_cast<double>(pages) / took_s;
  return result;
}

namespace json = boost::json;

json::object stale_json(const StaleReport& report) {
  const StaleBenchOptions& options = report.options;
  const StaleBenchResult& result = report.result;
  return {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"configuration",
       {{"batch", options.batch},
        {"lanes", options.lanes},
        {"pool_bytes", options.pool_bytes},
        {"seconds", options.seconds}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", options.page_bytes},
      {"pages_per_s", result.pages_per_s},
      {"verdicts", verdicts_json(result.verdicts[0], result.verdicts)},
      {"callback_wait_us", latency_json(result.callback_wait_ns)},
      {"callback_wait_max_us", static_cast<double>(result.longest_wait_ns) / 1e3},
      {"unreachable_looks", result.unreachable_looks},
  };
}

std::string stale_table(const StaleReport& report) {
  const StaleBenchResult& result = report.result;
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path));
  row("asked for",
      fmt::format("{:.0f} pages/s over {} lanes", result.pages_per_s, report.options.lanes));
  row("ready", fmt::format("{}", result.verdicts[0]));
  for (size_t i = 1; i < result.verdicts.size(); ++i) {
    if (result.verdicts[i] == 0) continue;
    row(fmt::format("recompute: {}", reason_name(static_cast<Reason>(i))).c_str(),
        fmt::format("{}", result.verdicts[i]));
  }
  row("a callback waits",
      fmt::format("{}, {:.2f} ms at the most", latency_text(result.callback_wait_ns),
                  static_cast<double>(result.longest_wait_ns) / 1e6));
  row("no lease",
      fmt::format("at {} of {} looks", result.unreachable_looks, result.callback_wait_ns.count()));
  return text;
}

}  // namespace farpage
