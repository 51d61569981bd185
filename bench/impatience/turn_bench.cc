#include "bench/impatience/turn_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/fill_node.h"
#include "bench/landing_memory.h"
#include "replay/page_fit.h"
#include "report/json.h"
#include "report/latency.h"

namespace farpage {
namespace {

constexpr uint64_t kDeadlineNs = 10 * kSecond;

class TurnBench {
 public:
  TurnBench(Client& client, std::span<const PageKey> keys, const Region& region, Lane& lane,
            const TurnBenchOptions& options)
      : client_(client), keys_(keys), lane_(lane), verdicts_(options.batch) {
    const uint64_t stride = round_up(options.page_bytes, 64);
    for (uint64_t i = 0; i < options.batch; ++i) {
      requests_.push_back({{}, 0, region.slice(i * stride, options.page_bytes)});
    }
  }

  // How many pages of one fetch are ready; its turns are among those of `turns`, and `between` is
  // called after each.
  template <typename Between>
  uint64_t fetch(Histogram& turns, uint64_t& most_ns, const Between& between) {
    for (PageRequest& request : requests_) request.key = keys_[random_.below(keys_.size())];
    Fetch fetch;
    time(turns, most_ns, [&] {
      fetch = lane_.fetch(requests_, verdicts_, client_.clock().now_ns() + kDeadlineNs);
    });
    while (!fetch.done()) {
      between();
      time(turns, most_ns, [&] { lane_.progress(); });
    }
    fetch.wait_released(kNever);
    return static_cast<uint64_t>(
        std::ranges::count(verdicts_, Verdict::kReady, &PageVerdict::verdict));
  }

 private:
  template <typename Turn>
  static void time(Histogram& turns, uint64_t& most_ns, const Turn& turn) {
    const uint64_t began_ns = boottime_clock().now_ns();
    turn();
    const uint64_t took_ns = boottime_clock().now_ns() - began_ns;
    turns.add(static_cast<double>(took_ns));
    most_ns = std::max(most_ns, took_ns);
  }

  Client& client_;
  std::span<const PageKey> keys_;
  Lane& lane_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  Random random_{1};
};

}  // namespace

Result<void> TurnBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (batch == 0 || batch > 10'000 || rounds == 0 || rounds > 10'000) {
    return fail(Code::kInvalid, "choose 1 to 10000 pages a fetch, and as many rounds");
  }
  if (pool_bytes < page_bytes) {
    return fail(Code::kInvalid, "the pool holds no page: choose a larger --pool-bytes");
  }
  if (!(seconds > 0 && seconds <= 60)) {
    return fail(Code::kInvalid, "choose more than 0 and at most 60 seconds");
  }
  return {};
}

Result<TurnBenchResult> run_turn_bench(Client& client, const TurnBenchOptions& options,
                                       const std::function<void(bool)>& hold,
                                       const std::function<bool()>& interrupted,
                                       const std::function<void(uint64_t, uint64_t)>& filled) {
  if (auto fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  const auto keys = fill_node(
      client, {options.name_space, options.page_bytes, options.pool_bytes / options.page_bytes},
      interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());
  TurnBenchResult result;
  if ((result.interrupted = interrupted())) return result;
  const auto memory =
      LandingMemory::create(client, options.batch * round_up(options.page_bytes, 64));
  if (!memory) return tl::unexpected(memory.error());
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  TurnBench bench(client, *keys, memory->region, *lane, options);
  const auto nothing = [] {};
  Histogram first_ns;
  uint64_t first_most_ns = 0;
  bench.fetch(first_ns, first_most_ns, nothing);  // looks the first pages up
  const auto steady_ns = static_cast<uint64_t>(options.seconds * static_cast<double>(kSecond));
  for (uint64_t round = 0; round < options.rounds; ++round) {
    if ((result.interrupted = interrupted())) break;
    const uint64_t end_ns = boottime_clock().now_ns() + steady_ns;
    while (boottime_clock().now_ns() < end_ns && !interrupted()) {
      result.ready += bench.fetch(result.steady_ns, result.steady_most_ns, nothing);
    }
    const uint64_t ended = lane->stats().channels_ended;
    bool holds = true;
    hold(true);
    // Operations posted now end their path; those posted over the next one arrive.
    result.ready += bench.fetch(result.ending_ns, result.ending_most_ns, [&] {
      if (holds && lane->stats().channels_ended > ended) hold(holds = false);
    });
    if (holds) hold(false);
    result.channels_ended += lane->stats().channels_ended - ended;
  }
  return result;
}

namespace json = boost::json;

json::object turn_json(const TurnReport& report) {
  const TurnBenchOptions& options = report.options;
  const TurnBenchResult& result = report.result;
  return {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"configuration",
       {{"batch", options.batch},
        {"pool_bytes", options.pool_bytes},
        {"rounds", options.rounds},
        {"seconds", options.seconds}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", options.page_bytes},
      {"steady_turn_us", latency_json(result.steady_ns)},
      {"steady_turn_max_us", static_cast<double>(result.steady_most_ns) / 1e3},
      {"ending_turn_us", latency_json(result.ending_ns)},
      {"ending_turn_max_us", static_cast<double>(result.ending_most_ns) / 1e3},
      {"channels_ended", result.channels_ended},
      {"ready", result.ready},
  };
}

std::string turn_table(const TurnReport& report) {
  const TurnBenchResult& result = report.result;
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  const auto turns = [](const Histogram& turns_ns, uint64_t most_ns) {
    return fmt::format("{}, {:.2f} ms at the most", latency_text(turns_ns),
                       static_cast<double>(most_ns) / 1e6);
  };
  row("path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path));
  row("a turn, all being well", turns(result.steady_ns, result.steady_most_ns));
  row("while a path ends", turns(result.ending_ns, result.ending_most_ns));
  row("channels ended", fmt::format("{}", result.channels_ended));
  row("ready", fmt::format("{}", result.ready));
  return text;
}

}  // namespace farpage
