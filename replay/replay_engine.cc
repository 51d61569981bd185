#include "replay/replay_engine.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/clock.h"
#include "replay/page_content.h"

namespace farpage {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

}  // namespace

ReplayEngine::ReplayEngine(Client& client, PagePool pool, Lane lane, const Trace& trace,
                           const ReplayOptions& options)
    : client_(client),
      pool_(std::move(pool)),
      lane_(std::move(lane)),
      trace_(trace),
      options_(options),
      local_(options.local_pages) {
  while (std::optional<PageLease> frame = pool_.take()) {
    // Touched here, so that no fetch pays for the memory's first use.
    std::fill_n(frame->slice().data, options_.page_bytes, std::byte{0});
    free_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.push_back(std::move(*frame));
  }
  numbers_.resize(frames_.size());
  round_pages_ = frames_.size() - options_.local_pages;
}

ReplayResult ReplayEngine::run(const ReplayHooks& hooks) {
  const auto start = SteadyClock::now();
  const size_t window = (trace_.requests.size() + kReplayWindows - 1) / kReplayWindows;
  ReplayWindow before;
  for (const TraceRequest& request : trace_.requests) {
    if ((result_.interrupted = hooks.interrupted())) break;
    serve(request.hash_ids);
    ++result_.requests;
    if (std::string what = hooks.progress(result_.requests); !what.empty()) {
      result_.events.push_back({result_.requests, std::move(what)});
    }
    if (result_.requests % window == 0 || result_.requests == trace_.requests.size()) {
      close_window(before);
    }
  }
  result_.wall_seconds = seconds_since(start);
  result_.hedges = lane_.stats().hedges;
  result_.hedges_won = lane_.stats().hedges_won;
  return std::move(result_);
}

std::span<std::byte> ReplayEngine::bytes_of(uint32_t frame) const {
  return {frames_[frame].slice().data, options_.page_bytes};
}

PageKey ReplayEngine::key_of(uint64_t page) const {
  return make_page_key(options_.name_space, std::to_string(page));
}

void ReplayEngine::serve(std::span<const uint64_t> pages) {
  while (!pages.empty()) {
    pages = pages.subspan(collect(pages));
    if (!misses_.empty()) {
      fetch();
      check_landed();
      put_recomputed();
    }
    check_hits();
    end_round();
  }
}

size_t ReplayEngine::collect(std::span<const uint64_t> pages) {
  size_t count = 0;
  for (const uint64_t page : pages) {
    if (const uint32_t* frame = local_.touch(page)) {
      hits_.push_back({page, *frame});
    } else {
      if (misses_.size() == round_pages_ || !missing_.insert(page).second) break;
      const uint32_t taken = free_.back();
      free_.pop_back();
      misses_.push_back({page, taken});
      if (const auto dropped = local_.insert(page, taken)) dropped_.push_back(dropped->second);
    }
    ++count;
  }
  result_.pages_demanded += count;
  result_.local_hits += hits_.size();
  return count;
}

void ReplayEngine::fetch() {
  requests_.clear();
  for (const LocalPage& miss : misses_) {
    requests_.push_back({key_of(miss.page), 0, frames_[miss.frame].slice()});
  }
  verdicts_.assign(misses_.size(), PageVerdict{});

  const uint64_t deadline = client_.clock().now_ns() + options_.fetch_deadline_ns;
  const auto start = SteadyClock::now();
  // Its destructor returns only when no destination can be written any more.
  Fetch fetch = lane_.fetch(requests_, verdicts_, deadline,
                            options_.fetch_options(trace_.block_tokens.value_or(0)));
  fetch.wait();
  const double seconds = seconds_since(start);
  const uint64_t end = client_.clock().now_ns();

  const uint64_t lateness = end > deadline ? end - deadline : 0;
  result_.lateness_max_ns = std::max(result_.lateness_max_ns, lateness);
  if (lateness > kLatenessAllowedNs) ++result_.late_fetches;
  result_.fetch_ns.add(seconds * 1e9);
  window_fetch_ns_.add(seconds * 1e9);
  result_.fetch_seconds += seconds;
  result_.fetched += misses_.size();
  ++result_.fetches;
  for (const PageVerdict& verdict : verdicts_) {
    if (verdict.verdict == Verdict::kReady) result_.page_ns.add(seconds * 1e9);
  }
  if (options_.hedge) bring_home(fetch);
}

// A hedge's page lies in a place of the lane's, which goes with the fetch.
void ReplayEngine::bring_home(Fetch& fetch) {
  fetch.wait_released(kNever);
  for (size_t i = 0; i < verdicts_.size(); ++i) {
    std::byte* frame = requests_[i].destination.data;
    const std::byte* landed = verdicts_[i].landed;
    if (verdicts_[i].verdict == Verdict::kReady && landed != frame) {
      std::copy_n(landed, options_.page_bytes, frame);
    }
  }
}

void ReplayEngine::check_landed() {
  for (size_t i = 0; i < misses_.size(); ++i) {
    const LocalPage& miss = misses_[i];
    if (verdicts_[i].verdict == Verdict::kReady) {
      const std::span<const std::byte> bytes = bytes_of(miss.frame);
      ++result_.ready;
      result_.wrong_bytes +=
          count_wrong_bytes(bytes, requests_[i].key, puts_.acceptable(miss.page));
      numbers_[miss.frame] = page_put_number(bytes);
    } else {
      ++result_.recompute[static_cast<size_t>(verdicts_[i].reason)];
    }
  }
}

void ReplayEngine::put_recomputed() {
  put_requests_.clear();
  recomputed_.clear();
  for (size_t i = 0; i < misses_.size(); ++i) {
    if (verdicts_[i].verdict == Verdict::kReady) continue;
    const LocalPage& miss = misses_[i];
    numbers_[miss.frame] = puts_.send(miss.page);
    fill_page(bytes_of(miss.frame), requests_[i].key, numbers_[miss.frame]);
    put_requests_.push_back({requests_[i].key, frames_[miss.frame].slice()});
    recomputed_.push_back(miss);
  }
  if (put_requests_.empty()) return;
  Put put = client_.put(put_requests_, client_.clock().now_ns() + options_.put_deadline_ns);
  const std::span<const PutResult> results = put.wait();
  if (result_.put_refusal.empty()) result_.put_refusal = put.why();
  for (size_t i = 0; i < results.size(); ++i) {
    ++result_.puts[static_cast<size_t>(results[i].code)];
    if (results[i].code != Code::kOk) continue;
    puts_.acknowledge(recomputed_[i].page, numbers_[recomputed_[i].frame]);
  }
}

void ReplayEngine::check_hits() {
  for (const LocalPage& hit : hits_) {
    const uint64_t number = numbers_[hit.frame];
    result_.local_wrong_bytes +=
        count_wrong_bytes(bytes_of(hit.frame), key_of(hit.page), {number, number});
  }
}

void ReplayEngine::end_round() {
  free_.insert(free_.end(), dropped_.begin(), dropped_.end());
  misses_.clear();
  missing_.clear();
  hits_.clear();
  dropped_.clear();
}

void ReplayEngine::close_window(ReplayWindow& before) {
  ReplayWindow now = {result_.requests, result_.pages_demanded, result_.local_hits, result_.ready};
  result_.windows.push_back({now.last_request, now.pages_demanded - before.pages_demanded,
                             now.local_hits - before.local_hits, now.ready - before.ready,
                             window_fetch_ns_.quantile(0.5), window_fetch_ns_.quantile(0.99)});
  before = now;
  window_fetch_ns_ = Histogram();
}

}  // namespace farpage
