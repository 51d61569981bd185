#include "lab/live/live_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "lab/paging/for_each_step.h"
#include "lab/vtime/step_replay.h"
#include "replay/page_content.h"

namespace farpage::live {
namespace {

using prefetch::Access;
using prefetch::PageNumber;

// As many pages as are put, or read, at a time, before the clock is of any interest.
constexpr uint64_t kChunkBytes = 16 * kMiB;
constexpr uint64_t kPatienceNs = 30 * kSecond;

// A core is kept busy only for as long as something may come soon.
void idle(const Clock& clock, uint64_t until_ns) {
  constexpr uint64_t kSoonNs = 200 * kMicrosecond;
  const uint64_t now_ns = clock.now_ns();
  if (until_ns == kNever || until_ns < now_ns + kSoonNs) return;
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

Result<LiveReplay> LiveReplay::create(Client& client, Fabric& fabric,
                                      const paging::AccessTrace& trace, const LiveOptions& options,
                                      const LiveHooks& hooks) {
  if (options.timed.page_bytes < kMinContentBytes) {
    return fail(
        Code::kInvalid,
        fmt::format("a page has at least {} bytes, so that it proves itself", kMinContentBytes));
  }
  LiveReplay replay(client, fabric, trace, options);
  for (uint64_t page = 0; page < trace.pages; ++page) {
    replay.keys_.push_back(make_page_key(options.name_space, std::to_string(page)));
  }
  if (auto done = replay.measure_steps(); !done) return tl::unexpected(done.error());
  if (auto done = replay.put_all(hooks); !done) return tl::unexpected(done.error());
  if (auto done = replay.read_all(); !done) return tl::unexpected(done.error());
  return replay;
}

Result<void> LiveReplay::measure_steps() {
  std::vector<PageNumber> pages;
  return paging::for_each_step(*trace_, [&](std::span<const Access> accesses) {
    pages.clear();
    for (const Access& access : accesses) pages.push_back(access.page);
    std::ranges::sort(pages);
    const auto end = std::unique(pages.begin(), pages.end());
    step_pages_ = std::max<uint64_t>(step_pages_, static_cast<uint64_t>(end - pages.begin()));
  });
}

Result<void> LiveReplay::put_all(const LiveHooks& hooks) {
  const uint64_t chunk = std::max<uint64_t>(1, kChunkBytes / options_.timed.page_bytes);
  auto pool = PagePool::create(*fabric_, options_.timed.page_bytes, static_cast<uint32_t>(chunk));
  if (!pool) return tl::unexpected(pool.error());
  std::vector<PageLease> sources;
  while (auto source = pool->take()) sources.push_back(std::move(*source));
  std::vector<PutRequest> requests;
  for (size_t page = 0; page < keys_.size(); page += requests.size()) {
    if (hooks.interrupted()) return fail(Code::kAborted, "interrupted");
    requests.clear();
    for (size_t i = 0; i < sources.size() && page + i < keys_.size(); ++i) {
      const Slice& slice = sources[i].slice();
      fill_page({slice.data, options_.timed.page_bytes}, keys_[page + i], LaneWire::kPutNumber);
      requests.push_back({keys_[page + i], slice});
    }
    Put put = client_->put(requests, client_->clock().now_ns() + kPatienceNs);
    for (const PutResult& result : put.wait()) {
      if (result.code == Code::kOk) continue;
      return fail(result.code, fmt::format("the node takes no more than {} of the trace's {} pages",
                                           page, keys_.size()));
    }
  }
  return {};
}

Result<void> LiveReplay::read_all() {
  auto lane = client_->open_lane();
  if (!lane) return tl::unexpected(lane.error());
  const uint64_t chunk = std::max<uint64_t>(1, kChunkBytes / options_.timed.page_bytes);
  std::vector<PageRequest> requests;
  std::vector<PageVerdict> verdicts;
  for (size_t page = 0; page < keys_.size(); page += requests.size()) {
    requests.clear();
    for (size_t i = page; i < std::min<size_t>(keys_.size(), page + chunk); ++i) {
      requests.push_back({keys_[i], 0, {}});
    }
    verdicts.assign(requests.size(), {});
    lane->fetch(requests, verdicts, client_->clock().now_ns() + kPatienceNs).wait();
    const auto gone = std::ranges::count(verdicts, Verdict::kRecompute, &PageVerdict::verdict);
    if (gone == 0) continue;
    return fail(Code::kExhausted,
                "the node has not kept all of the trace's pages: give it more --pool-bytes");
  }
  return {};
}

Result<vtime::TimedResult> LiveReplay::run(uint64_t budget_pages, prefetch::Policy& policy,
                                           prefetch::Prefetcher& prefetcher,
                                           const LiveHooks& hooks) {
  if (budget_pages < step_pages_) {
    return fail(Code::kInvalid, fmt::format("a step demands up to {} pages: a live replay needs a "
                                            "--budget for as many",
                                            step_pages_));
  }
  const Clock& clock = client_->clock();
  const vtime::TimedOptions& timed = options_.timed;
  auto wire = LaneWire::open(*client_, *fabric_, keys_,
                             {timed.page_bytes, budget_pages, step_pages_, timed.prefetch_pages,
                              options_.deadline_ns, timed.scheduler},
                             [&clock](uint64_t until_ns) { idle(clock, until_ns); });
  if (!wire) return tl::unexpected(wire.error());
  vtime::StepReplay replay(trace_->pages, budget_pages, timed, **wire, policy, prefetcher);
  bool interrupted = false;
  const uint64_t begin_ns = clock.now_ns();
  auto read = paging::for_each_step(*trace_, [&](std::span<const Access> accesses) {
    interrupted = interrupted || hooks.interrupted();
    if (interrupted) return;
    replay.step(accesses);
    hooks.progress(accesses.size());
  });
  if (!read) return tl::unexpected(read.error());
  if (interrupted) return fail(Code::kAborted, "interrupted");
  vtime::TimedResult result = replay.end();
  result.end_ns -= begin_ns;
  const LiveCounts& counts = (*wire)->end();
  result.wrong_bytes = counts.wrong_bytes;
  result.lateness_ns = counts.lateness_max_ns;
  return result;
}

}  // namespace farpage::live
