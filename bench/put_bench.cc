#include "bench/put_bench.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "base/clock.h"
#include "bench/landing_memory.h"
#include "control/messages.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"
#include "replay/put_advice.h"
#include "report/json.h"
#include "report/latency.h"

namespace farpage {
namespace {

constexpr uint64_t kDeadlineNs = 10 * kSecond;

// Of the pages that the client's node has stored.
Result<uint64_t> pages_in_place(Client& client) {
  const auto status = client.node_status(client.clock().now_ns() + kDeadlineNs);
  if (!status) return tl::unexpected(status.error());
  return status->puts_in_place;
}

}  // namespace

Result<void> PutBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (batch == 0 || batch > kMaxCommitPages || batch > pool_bytes / page_bytes) {
    return fail(Code::kInvalid,
                fmt::format("a put of {} pages: choose 1 to {}, and no more than --pool-bytes has",
                            batch, kMaxCommitPages));
  }
  if (!(seconds > 0 && seconds <= 3600)) {
    return fail(Code::kInvalid, "choose more than 0 and at most 3600 seconds");
  }
  return {};
}

Result<PutBenchResult> run_put_bench(Client& client, const PutBenchOptions& options,
                                     const std::function<bool()>& interrupted) {
  if (auto fits = check_page_fits(options.page_bytes, client); !fits) {
    return tl::unexpected(fits.error());
  }
  const uint64_t bytes = options.batch * options.page_bytes;
  const auto memory = options.in_place ? LandingMemory::create_in_file(client, bytes)
                                       : LandingMemory::create(client, bytes);
  if (!memory) return tl::unexpected(memory.error());
  std::vector<PutRequest> requests(options.batch);
  const uint64_t keys = options.pool_bytes / options.page_bytes;
  PutBenchResult result;
  uint64_t next = 0;
  const auto put = [&] {
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].key = make_page_key(options.name_space, std::to_string(next++ % keys));
      requests[i].source = memory->region.slice(i * options.page_bytes, options.page_bytes);
      fill_page({requests[i].source.data, options.page_bytes}, requests[i].key, next);
    }
    const uint64_t start = boottime_clock().now_ns();
    Put under_way = client.put(requests, client.clock().now_ns() + kDeadlineNs);
    const auto results = under_way.wait();
    const uint64_t took_ns = boottime_clock().now_ns() - start;
    for (const PutResult& each : results) ++result.pages[static_cast<size_t>(each.code)];
    result.put_ns.add(static_cast<double>(took_ns));
    return static_cast<double>(took_ns) * 1e-9;
  };
  put();  // the first pays for the memory's first use
  result = {};
  const auto before = options.in_place ? pages_in_place(client) : Result<uint64_t>(0);
  if (!before) return tl::unexpected(before.error());
  double putting_s = 0;
  while (putting_s < options.seconds && !interrupted()) putting_s += put();
  result.interrupted = interrupted();
  const auto after = options.in_place ? pages_in_place(client) : Result<uint64_t>(0);
  if (!after) return tl::unexpected(after.error());
  result.pages_in_place = *after - *before;
  if (putting_s > 0) result.pages_per_s = static_cast<double>(result.pages[0]) / putting_s;
  return result;
}

namespace json = boost::json;

json::object put_json(const PutReport& report) {
  const PutBenchOptions& bench = report.options;
  const PutBenchResult& result = report.result;
  json::object refused;
  for (size_t i = 1; i < result.pages.size(); ++i) {
    if (result.pages[i] > 0) refused[code_name(static_cast<Code>(i))] = result.pages[i];
  }
  return {
      {"version", report.version},
      {"backend", report.capabilities.backend},
      {"path", report.capabilities.path},
      {"configuration",
       {{"batch", bench.batch},
        {"pool_bytes", bench.pool_bytes},
        {"seconds", bench.seconds},
        {"in_place", bench.in_place},
        {"nodes", report.nodes},
        {"replicas", report.replicas},
        {"own_node", report.own_node}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", bench.page_bytes},
      {"acknowledged", result.pages[0]},
      {"in_place", result.pages_in_place},
      {"not_acknowledged_by_reason", refused},
      {"put_us", latency_json(result.put_ns)},
      {"pages_per_s", result.pages_per_s},
      {"bytes_per_s", result.pages_per_s * static_cast<double>(bench.page_bytes)},
  };
}

std::string put_table(const PutReport& report) {
  const PutBenchResult& result = report.result;
  const double page_gb = static_cast<double>(report.options.page_bytes) * 1e-9;
  std::string text;
  const auto row = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  row("path", fmt::format("{}: {}", report.capabilities.backend, report.capabilities.path));
  row("acknowledged", fmt::format("{} pages of {}, {:.0f} pages/s, {:.2f} GB/s", result.pages[0],
                                  format_bytes(report.options.page_bytes), result.pages_per_s,
                                  result.pages_per_s * page_gb));
  if (report.options.in_place) {
    row("of them, read in place", fmt::format("{} pages", result.pages_in_place));
  }
  for (size_t i = 1; i < result.pages.size(); ++i) {
    if (result.pages[i] == 0) continue;
    row(fmt::format("not: {}", code_name(static_cast<Code>(i))),
        fmt::format("{}{}", result.pages[i], put_advice(static_cast<Code>(i))));
  }
  row("put latency", latency_text(result.put_ns));
  return text;
}

}  // namespace farpage
