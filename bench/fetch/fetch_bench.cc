#include "bench/fetch/fetch_bench.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/memory/system_memory.h"
#include "bench/fetch/fetch_connection.h"
#include "bench/fill_node.h"
#include "replay/page_content.h"
#include "replay/page_fit.h"

namespace farpage {
namespace {

constexpr double kTurnSeconds = 0.5;
constexpr uint64_t kPutDeadlineNs = 30 * kSecond;

double process_cpu_s() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// All connections take the same turn at the same time.
class Turns {
 public:
  // `node_cpu_ns`: what the node has used so far.
  Turns(double seconds, size_t connections, bool copies, std::function<uint64_t()> node_cpu_ns,
        const std::function<bool()>& interrupted)
      : seconds_left_(seconds),
        copies_(copies),
        node_cpu_now_ns_(std::move(node_cpu_ns)),
        interrupted_(interrupted),
        barrier_(static_cast<ptrdiff_t>(connections), OnTurn{this}) {}

  void run(FetchConnection& connection) {
    barrier_.arrive_and_wait();
    while (turn_ != Turn::kEnd) {
      if (turn_ == Turn::kFetch) {
        connection.fetch_for(turn_seconds_);
      } else {
        connection.copy_again();
      }
      barrier_.arrive_and_wait();
    }
  }

  double fetch_cpu_s() const { return fetch_cpu_s_; }
  uint64_t node_cpu_ns() const { return node_cpu_ns_; }  // while fetching, too
  bool was_interrupted() const { return was_interrupted_; }

 private:
  enum class Turn : uint8_t { kBegin, kFetch, kCopy, kEnd };

  struct OnTurn {
    Turns* turns;
    void operator()() noexcept { turns->next(); }
  };

  void next() {
    if (turn_ == Turn::kFetch) {
      fetch_cpu_s_ += process_cpu_s() - cpu_before_s_;
      node_cpu_ns_ += node_cpu_now_ns_() - node_cpu_before_ns_;
      seconds_left_ -= turn_seconds_;
    }
    was_interrupted_ = interrupted_();
    if (turn_ == Turn::kFetch && copies_ && !was_interrupted_) {
      turn_ = Turn::kCopy;
    } else if (seconds_left_ > 1e-3 && !was_interrupted_) {
      turn_ = Turn::kFetch;
      turn_seconds_ = std::min(kTurnSeconds, seconds_left_);
      node_cpu_before_ns_ = node_cpu_now_ns_();
      cpu_before_s_ = process_cpu_s();
    } else {
      turn_ = Turn::kEnd;
    }
  }

  // Written in the barrier's completion step alone, and so seen by every thread that passes it.
  Turn turn_ = Turn::kBegin;
  double turn_seconds_ = 0;
  double seconds_left_;
  double cpu_before_s_ = 0;
  double fetch_cpu_s_ = 0;
  uint64_t node_cpu_before_ns_ = 0;
  uint64_t node_cpu_ns_ = 0;
  bool was_interrupted_ = false;

  bool copies_;
  const std::function<uint64_t()> node_cpu_now_ns_;
  const std::function<bool()>& interrupted_;
  std::barrier<OnTurn> barrier_;
};

void add(const FetchConnection& connection, FetchBenchResult& result) {
  const FetchConnection::Totals& totals = connection.totals();
  result.fetches += totals.fetches;
  result.ready += totals.ready;
  result.impossible_fetches += totals.impossible_fetches;
  result.impossible_ready += totals.impossible_ready;
  for (size_t i = 0; i < totals.recompute.size(); ++i) result.recompute[i] += totals.recompute[i];
  result.checked_pages += totals.checked_pages;
  result.wrong_bytes += totals.wrong_bytes;
  result.fetch_ns.merge(totals.fetch_ns);
  if (totals.fetch_seconds > 0) {
    result.pages_per_s += static_cast<double>(totals.ready) / totals.fetch_seconds;
  }
  if (totals.copy_seconds > 0) {
    result.copied_pages_per_s += static_cast<double>(totals.copied_pages) / totals.copy_seconds;
  }
}

}  // namespace

uint64_t FetchBench::slots_for(uint64_t pages) {
  return pages + pages / 7 + 64;
}
uint64_t FetchBench::most_pages(uint64_t slots) {
  return slots - slots / 8;
}

Result<void> FetchBenchOptions::validate() const {
  if (page_bytes < kMinContentBytes) {
    return fail(Code::kInvalid, fmt::format("a page needs at least {} bytes", kMinContentBytes));
  }
  if (batch == 0 || depth == 0 || connections == 0 || !(seconds > 0)) {
    return fail(Code::kInvalid, "batch, depth, connections and seconds must be more than 0");
  }
  if (batch > 10'000'000 || depth > 1024 || connections > 256 || seconds > 86'400) {
    return fail(Code::kInvalid,
                "choose at most 10000000 for batch, 1024 for depth, 256 for connections, a day for "
                "seconds");
  }
  if (deadline_us == 0 || deadline_us > 3'600'000'000) {
    return fail(Code::kInvalid, "a fetch needs a deadline of 1 us to an hour");
  }
  if (!(impossible_share >= 0 && impossible_share <= 0.5)) {
    return fail(Code::kInvalid,
                "the share of fetches that cannot be in time is 0 to 0.5: the others tell how much "
                "time is too little");
  }
  const double landing = static_cast<double>(batch) * static_cast<double>(depth) *
                         static_cast<double>(connections) * static_cast<double>(page_bytes);
  const uint64_t available = available_memory_bytes();
  if (landing > static_cast<double>(available)) {
    return fail(
        Code::kExhausted,
        fmt::format("the landing places of {} fetches of {} pages need {:.1f} GiB, and {} are "
                    "available: choose a smaller batch",
                    depth * connections, batch, landing / static_cast<double>(kGiB),
                    format_bytes(available)));
  }
  return {};
}

Result<FetchBenchResult> FetchBench::run(const std::function<bool()>& interrupted,
                                         const std::function<void(uint64_t, uint64_t)>& filled) {
  if (const Result<void> valid = options_.validate(); !valid) return tl::unexpected(valid.error());
  if (const Result<void> fits = check_page_fits(options_.page_bytes, client_); !fits) {
    return tl::unexpected(fits.error());
  }
  const auto status = client_.node_status(client_.clock().now_ns() + kPutDeadlineNs);
  if (!status) return tl::unexpected(status.error());
  const uint64_t pages =
      std::min(options_.pool_bytes / options_.page_bytes, most_pages(status->slots));
  if (pages == 0) return fail(Code::kInvalid, "the pool holds no page: choose a larger one");
  const auto keys =
      fill_node(client_, {options_.name_space, options_.page_bytes, pages}, interrupted, filled);
  if (!keys) return tl::unexpected(keys.error());

  std::vector<std::unique_ptr<FetchConnection>> connections;
  bool copies = true;
  for (uint64_t i = 0; i < options_.connections && !interrupted(); ++i) {
    auto opened = FetchConnection::open(client_, options_, *keys, 1 + i);
    if (!opened) return tl::unexpected(opened.error());
    FetchConnection& connection = *connections.emplace_back(std::move(*opened));
    // Locations are shared by the lanes of a client: the first one finds them all.
    connection.warm_up(0, i == 0 ? keys->size() : 0);
    copies = connection.find_addresses() && copies;
  }
  FetchBenchResult result;
  result.pages_stored = keys->size();
  if ((result.interrupted = interrupted())) return result;

  uint64_t last_cpu_ns = 0;
  std::optional<Error> silent;  // the node does not say
  const auto node_cpu_ns = [&] {
    const auto asked = client_.node_status(client_.clock().now_ns() + kPutDeadlineNs);
    if (asked) {
      last_cpu_ns = asked->cpu_ns;
    } else {
      silent = asked.error();
    }
    return last_cpu_ns;
  };
  for (const auto& connection : connections) {
    result.hedges -= connection->stats().hedges;
    result.hedges_won -= connection->stats().hedges_won;
    result.posts -= connection->stats().posts;
    result.index_looks -= connection->stats().index_looks;
    result.channels_ended -= connection->stats().channels_ended;
  }
  Turns turns(options_.seconds, connections.size(), copies, node_cpu_ns, interrupted);
  {
    std::vector<std::jthread> threads;
    threads.reserve(connections.size());
    for (const auto& connection : connections) {
      threads.emplace_back([&turns, &connection] { turns.run(*connection); });
    }
  }
  if (silent) return tl::unexpected(*silent);

  for (const auto& connection : connections) {
    add(*connection, result);
    result.hedges += connection->stats().hedges;
    result.hedges_won += connection->stats().hedges_won;
    result.posts += connection->stats().posts;
    result.index_looks += connection->stats().index_looks;
    result.channels_ended += connection->stats().channels_ended;
  }
  result.interrupted = turns.was_interrupted();
  result.client_cpu_s = turns.fetch_cpu_s();
  result.node_cpu_s = static_cast<double>(turns.node_cpu_ns()) * 1e-9;
  return result;
}

}  // namespace farpage
