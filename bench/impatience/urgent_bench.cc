#include "bench/impatience/urgent_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "bench/fill_node.h"
#include "bench/landing_memory.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"
#include "report/json.h"
#include "report/latency.h"

namespace farpage {
namespace {

constexpr uint64_t kAloneNs = 10 * kSecond;  // that a page alone has

// The pages' destinations, and behind them that of the one page.
class UrgentBench {
 public:
  UrgentBench(Client& client, std::span<const PageKey> keys, const Region& region, Lane& lane,
              const UrgentBenchOptions& options)
      : client_(client), lane_(lane), options_(options), verdicts_(keys.size()) {
    const uint64_t stride = round_up(options.page_bytes, 64);
    for (size_t i = 0; i < keys.size(); ++i) {
      requests_.push_back({keys[i], 0, region.slice(i * stride, options.page_bytes)});
    }
    urgent_ = {keys[0], 0, region.slice(keys.size() * stride, options.page_bytes)};
  }

  // The pages' locations are known afterwards.
  void warm_up() { lane_.fetch(requests_, verdicts_, in(kAloneNs)).wait(); }

  void round(UrgentBenchResult& result) {
    PageVerdict verdict;
    lane_.fetch({&urgent_, 1}, {&verdict, 1}, in(kAloneNs)).wait();
    result.alone_ns.add(static_cast<double>(verdict.took_ns));
    const uint64_t began_ns = client_.clock().now_ns();
    Fetch others =
        lane_.fetch(requests_, verdicts_, in(options_.others_deadline_us * kMicrosecond));
    Fetch urgent =
        lane_.fetch({&urgent_, 1}, {&verdict, 1}, in(options_.deadline_us * kMicrosecond));
    urgent.wait();
    others.wait();
    result.others_ns.add(static_cast<double>(client_.clock().now_ns() - began_ns));
    result.behind_ns.add(static_cast<double>(verdict.took_ns));
    check(verdict, urgent_, result);
    result.ready += verdict.verdict == Verdict::kReady ? 1 : 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      result.others_ready += verdicts_[i].verdict == Verdict::kReady ? 1 : 0;
    }
    check(verdicts_.back(), requests_.back(), result);
    ++result.rounds;
    urgent.wait_released(kNever);
    others.wait_released(kNever);
  }

 private:
  uint64_t in(uint64_t time_ns) const { return client_.clock().now_ns() + time_ns; }

  void check(const PageVerdict& verdict, const PageRequest& request, UrgentBenchResult& result) {
    if (verdict.verdict != Verdict::kReady) return;
    ++result.checked_pages;
    result.wrong_bytes +=
        count_wrong_bytes({verdict.landed, options_.page_bytes}, request.key, {1, 1});
  }

  Client& client_;
  Lane& lane_;
  const UrgentBenchOptions& options_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  PageRequest urgent_;
};

}  // namespace

Result<void> UrgentBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (beside == 0 || beside > 1'000'000 || rounds == 0 || rounds > 1'000'000) {
    return fail(Code::kInvalid, "choose 1 to 1000000 pages beside it, and as many rounds");
  }
  if (deadline_us == 0 || others_deadline_us > 3'600'000'000 || deadline_us > others_deadline_us) {
    return fail(Code::kInvalid,
                "the one page needs a deadline of 1 us or more, the others no earlier one, and an "
                "hour at the most");
  }
  return {};
}

Result<UrgentBenchResult> run_urgent_bench(Client& client, const UrgentBenchOptions& options,
                                           const std::function<bool()>& interrupted,
                                           const std::function<void(uint64_t, uint64_t)>& filled) {
  if (auto fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  const auto keys = fill_node(client, {options.name_space, options.page_bytes, options.beside},
                              interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());
  UrgentBenchResult result;
  if ((result.interrupted = interrupted())) return result;
  const auto memory =
      LandingMemory::create(client, (keys->size() + 1) * round_up(options.page_bytes, 64));
  if (!memory) return tl::unexpected(memory.error());
  auto lane = client.open_lane();
  if (!lane) return tl::unexpected(lane.error());
  UrgentBench bench(client, *keys, memory->region, *lane, options);
  bench.warm_up();
  const uint64_t ended = lane->stats().channels_ended;
  while (result.rounds < options.rounds && !(result.interrupted = interrupted())) {
    bench.round(result);
  }
  result.channels_ended = lane->stats().channels_ended - ended;
  return result;
}

namespace json = boost::json;

json::object urgent_json(const UrgentReport& report) {
  const UrgentBenchOptions& options = report.options;
  const UrgentBenchResult& result = report.result;
  return {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"configuration",
       {{"beside", options.beside},
        {"deadline_us", options.deadline_us},
        {"others_deadline_us", options.others_deadline_us}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", options.page_bytes},
      {"rounds", result.rounds},
      {"alone_us", latency_json(result.alone_ns)},
      {"behind_us", latency_json(result.behind_ns)},
      {"others_us", latency_json(result.others_ns)},
      {"ready", result.ready},
      {"others_ready", result.others_ready},
      {"channels_ended", result.channels_ended},
      {"checked_pages", result.checked_pages},
      {"wrong_bytes", result.wrong_bytes},
  };
}

std::string urgent_table(const UrgentReport& report) {
  const UrgentBenchResult& result = report.result;
  std::string text;
  const auto row = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path));
  row("one page alone", latency_text(result.alone_ns));
  row("behind the others", latency_text(result.behind_ns));
  row("the others",
      fmt::format("{} pages of {}: {}", report.options.beside,
                  format_bytes(report.options.page_bytes), latency_text(result.others_ns)));
  row("ready", fmt::format("{} of {} behind the others, {} of those", result.ready, result.rounds,
                           result.others_ready));
  row("channels ended", fmt::format("{}", result.channels_ended));
  row("wrong bytes",
      fmt::format("{} in {} pages looked at", result.wrong_bytes, result.checked_pages));
  return text;
}

}  // namespace farpage
