#include "bench/client_bench.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/json/object.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/memory/mapping.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"
#include "report/json.h"
#include "report/latency.h"

namespace farpage {
namespace {

constexpr uint64_t kTimeoutUs = 10'000'000;
constexpr uint64_t kSubmitPages = 64;
constexpr uint64_t kPutPages = 64;
constexpr uint64_t kPutNumber = 1;

uint64_t now_ns() {
  return boottime_clock().now_ns();
}

// Registered memory for some pages.
struct Frames {
  Mapping memory;
  Region region;
  uint64_t page_bytes = 0;

  static Result<Frames> make(Farpage& tier, uint64_t pages, uint64_t page_bytes) {
    auto memory = Mapping::anonymous(pages * page_bytes);
    if (!memory) return tl::unexpected(memory.error());
    auto region = tier.register_memory({memory->data(), memory->bytes()});
    if (!region) return tl::unexpected(region.error());
    return Frames{std::move(*memory), std::move(*region), page_bytes};
  }
  Slice slice(uint64_t page) const { return region.slice(page * page_bytes, page_bytes); }
  std::span<std::byte> bytes(uint64_t page) const {
    return {memory.data() + page * page_bytes, page_bytes};
  }
};

class ClientBench {
 public:
  ClientBench(Farpage& tier, const ClientBenchOptions& options, std::vector<PageKey> keys,
              const std::function<bool()>& interrupted)
      : tier_(tier), options_(options), keys_(std::move(keys)), interrupted_(interrupted) {}

  Result<void> put_all();
  Result<void> compare(ClientBenchResult& result);
  Result<void> measure(ClientBenchResult& result);

 private:
  std::vector<PageRequest> requests(const Frames& frames, uint64_t first, uint64_t count) const {
    std::vector<PageRequest> all;
    for (uint64_t i = 0; i < count; ++i) {
      all.push_back({keys_[(first + i) % keys_.size()], 0, frames.slice(i)});
    }
    return all;
  }
  void count(std::span<const PageVerdict> verdicts) {
    uint64_t failed = 0;
    for (const PageVerdict& verdict : verdicts) failed += verdict.verdict != Verdict::kReady;
    not_ready_ += failed;
  }
  // Calls `once` for as long as a measurement lasts.
  template <typename Once>
  void repeat(const Once& once) const {
    const auto until = now_ns() + static_cast<uint64_t>(options_.seconds * 1e9);
    while (now_ns() < until && !interrupted_()) once();
  }
  Result<double> pages_per_s(uint64_t threads);
  Result<double> driven_pages_per_s();

  Farpage& tier_;
  const ClientBenchOptions& options_;
  const std::vector<PageKey> keys_;
  const std::function<bool()>& interrupted_;
  std::atomic<uint64_t> not_ready_ = 0;
};

Result<void> ClientBench::put_all() {
  const auto frames = Frames::make(tier_, kPutPages, options_.page_bytes);
  if (!frames) return tl::unexpected(frames.error());
  for (uint64_t first = 0; first < keys_.size(); first += kPutPages) {
    std::vector<PutRequest> puts;
    for (uint64_t i = 0; i < kPutPages && first + i < keys_.size(); ++i) {
      fill_page(frames->bytes(i), keys_[first + i], kPutNumber);
      puts.push_back({keys_[first + i], frames->slice(i)});
    }
    const auto ticket = tier_.put(puts, kTimeoutUs);
    if (!ticket) return tl::unexpected(ticket.error());
    ticket->wait();
    for (const PutResult& result : ticket->results()) {
      if (result.code == Code::kOk) continue;
      return fail(result.code, fmt::format("a page was not put ({}): {}", code_name(result.code),
                                           ticket->why()));
    }
  }
  return {};
}

Result<double> ClientBench::pages_per_s(uint64_t threads) {
  std::vector<Frames> frames;
  for (uint64_t i = 0; i < threads; ++i) {
    auto made = Frames::make(tier_, options_.batch, options_.page_bytes);
    if (!made) return tl::unexpected(made.error());
    frames.push_back(std::move(*made));
  }
  std::atomic<uint64_t> pages = 0;
  std::vector<std::thread> running;
  const uint64_t begun = now_ns();
  for (uint64_t number = 0; number < threads; ++number) {
    running.emplace_back([&, number] {
      uint64_t first = number * keys_.size() / threads;
      repeat([&] {
        const auto ticket =
            tier_.fetch(requests(frames[number], first, options_.batch), kTimeoutUs);
        first += options_.batch;
        if (!ticket) return;
        ticket->wait();
        count(ticket->verdicts());
        pages += options_.batch;
      });
    });
  }
  for (std::thread& thread : running) thread.join();
  return static_cast<double>(pages) * 1e9 / static_cast<double>(now_ns() - begun);
}

// The same batches on this thread, without runners.
Result<double> ClientBench::driven_pages_per_s() {
  const auto frames = Frames::make(tier_, options_.batch, options_.page_bytes);
  if (!frames) return tl::unexpected(frames.error());
  auto lane = tier_.client().open_lane();
  if (!lane) return tl::unexpected(lane.error());
  std::vector<PageVerdict> verdicts(options_.batch);
  uint64_t first = 0;
  uint64_t pages = 0;
  const uint64_t begun = now_ns();
  repeat([&] {
    const auto asked = requests(*frames, first, options_.batch);
    lane->fetch(asked, verdicts, tier_.clock().now_ns() + kTimeoutUs * kMicrosecond).wait();
    first += options_.batch;
    count(verdicts);
    pages += options_.batch;
  });
  return static_cast<double>(pages) * 1e9 / static_cast<double>(now_ns() - begun);
}

// Every page once, byte by byte.
Result<void> ClientBench::compare(ClientBenchResult& result) {
  const auto frames = Frames::make(tier_, 1, options_.page_bytes);
  if (!frames) return tl::unexpected(frames.error());
  std::vector<std::byte> whole(options_.page_bytes);
  for (uint64_t page = 0; page < keys_.size(); ++page) {
    const uint64_t begun = now_ns();
    const auto ticket = tier_.fetch(requests(*frames, page, 1), kTimeoutUs);
    if (!ticket) return tl::unexpected(ticket.error());
    ticket->wait();
    result.fetch_ns.add(static_cast<double>(now_ns() - begun));
    count(ticket->verdicts());
    if (ticket->verdicts()[0].verdict != Verdict::kReady) continue;
    fill_page(whole, keys_[page], kPutNumber);
    for (uint64_t i = 0; i < whole.size(); ++i)
      result.wrong_bytes += whole[i] != frames->bytes(0)[i];
  }
  return {};
}

Result<void> ClientBench::measure(ClientBenchResult& result) {
  if (auto compared = compare(result); !compared) return compared;
  const auto frames = Frames::make(tier_, kSubmitPages, options_.page_bytes);
  if (!frames) return tl::unexpected(frames.error());
  const auto asked = requests(*frames, 0, kSubmitPages);
  repeat([&] {
    const uint64_t begun = now_ns();
    const auto ticket = tier_.fetch(asked, kTimeoutUs);
    result.submit_ns.add(static_cast<double>(now_ns() - begun));
    if (!ticket) return;
    ticket->wait();
    count(ticket->verdicts());
  });
  repeat([&] {
    const uint64_t begun = now_ns();
    result.leading_keys = tier_.leading(keys_, kTimeoutUs).value_or(0);
    result.leading_ns.add(static_cast<double>(now_ns() - begun));
  });
  const auto driven = driven_pages_per_s();
  if (!driven) return tl::unexpected(driven.error());
  const auto one = pages_per_s(1);
  if (!one) return tl::unexpected(one.error());
  const auto many = pages_per_s(options_.threads);
  if (!many) return tl::unexpected(many.error());
  result.driven_pages_per_s = *driven;
  result.one_pages_per_s = *one;
  result.many_pages_per_s = *many;
  result.not_ready = not_ready_;
  result.interrupted = interrupted_();
  return {};
}

}  // namespace

Result<void> ClientBenchOptions::validate() const {
  if (auto valid = check_page_bytes(page_bytes); !valid) return valid;
  if (pages < kSubmitPages || batch == 0 || batch > pages || threads == 0 || threads > 256) {
    return fail(Code::kInvalid,
                fmt::format("choose at least {} pages, a batch of 1 up to as many, and 1 to 256 "
                            "threads",
                            kSubmitPages));
  }
  if (!(seconds > 0 && seconds <= 3600)) {
    return fail(Code::kInvalid, "choose more than 0 and at most 3600 seconds");
  }
  return {};
}

Result<ClientBenchResult> run_client_bench(const OpenOptions& open,
                                           const ClientBenchOptions& options,
                                           const std::function<bool()>& interrupted) {
  ClientBenchResult result;
  const std::string name_space = fmt::format("client bench {}", now_ns());
  std::vector<PageKey> keys;
  for (uint64_t i = 0; i < options.pages; ++i) {
    keys.push_back(make_page_key(name_space, std::to_string(i)));
  }
  const uint64_t begun = now_ns();
  const auto tier = Farpage::open(open);
  if (!tier) return tl::unexpected(tier.error());
  if (auto fits = check_page_fits(options.page_bytes, (*tier)->client()); !fits) {
    return tl::unexpected(fits.error());
  }
  ClientBenchOptions first = options;
  first.pages = first.batch = 1;
  ClientBench one_page(**tier, first, {keys[0]}, interrupted);
  const auto page = one_page.put_all().and_then([&] { return one_page.compare(result); });
  if (!page) return tl::unexpected(page.error());
  result.first_page_ms = static_cast<double>(now_ns() - begun) * 1e-6;
  result.fetch_ns = {};
  ClientBench bench(**tier, options, std::move(keys), interrupted);
  const auto done = bench.put_all().and_then([&] { return bench.measure(result); });
  if (!done) return tl::unexpected(done.error());
  return result;
}

namespace json = boost::json;

json::object client_json(const ClientReport& report) {
  const ClientBenchOptions& options = report.options;
  const ClientBenchResult& result = report.result;
  return {
      {"version", report.version},
      {"configuration",
       {{"pages", options.pages},
        {"batch", options.batch},
        {"threads", options.threads},
        {"seconds", options.seconds}}},
      {"hardware", hardware_json()},
      {"interrupted", result.interrupted},
      {"page_bytes", options.page_bytes},
      {"first_page_ms", result.first_page_ms},
      {"submit_us", latency_json(result.submit_ns)},
      {"fetch_us", latency_json(result.fetch_ns)},
      {"leading_us", latency_json(result.leading_ns)},
      {"leading_keys", result.leading_keys},
      {"driven_pages_per_s", result.driven_pages_per_s},
      {"one_pages_per_s", result.one_pages_per_s},
      {"many_pages_per_s", result.many_pages_per_s},
      {"not_ready", result.not_ready},
      {"wrong_bytes", result.wrong_bytes},
  };
}

std::string client_table(const ClientReport& report) {
  const ClientBenchOptions& options = report.options;
  const ClientBenchResult& result = report.result;
  const auto us = [](const Histogram& histogram, double quantile) {
    return histogram.quantile(quantile) * 1e-3;
  };
  std::string table;
  table += fmt::format("open to first page       {:.1f} ms\n", result.first_page_ms);
  table += fmt::format("submit of 64 pages       p50 {:.2f} us, p99 {:.2f} us\n",
                       us(result.submit_ns, 0.5), us(result.submit_ns, 0.99));
  table += fmt::format("one page                 p50 {:.2f} us, p99 {:.2f} us\n",
                       us(result.fetch_ns, 0.5), us(result.fetch_ns, 0.99));
  table += fmt::format("leading of {:<5} keys    p50 {:.2f} us, p99 {:.2f} us ({} there)\n",
                       options.pages, us(result.leading_ns, 0.5), us(result.leading_ns, 0.99),
                       result.leading_keys);
  table += fmt::format("a lane's own thread      {:.0f} pages/s\n", result.driven_pages_per_s);
  table += fmt::format("one thread               {:.0f} pages/s, {:.2f} x\n",
                       result.one_pages_per_s, result.one_pages_per_s / result.driven_pages_per_s);
  table += fmt::format("{:<3} threads              {:.0f} pages/s, {:.2f} x one\n", options.threads,
                       result.many_pages_per_s, result.many_pages_per_s / result.one_pages_per_s);
  table +=
      fmt::format("pages not ready {}, wrong bytes {}\n", result.not_ready, result.wrong_bytes);
  return table;
}

}  // namespace farpage
