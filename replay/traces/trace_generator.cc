#include "replay/traces/trace_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace farpage {
namespace {

constexpr uint64_t kSystemPrompts = 12;
constexpr size_t kOpenConversations = 256;
constexpr size_t kLongestConversation = 240;  // blocks
constexpr double kNewConversation = 0.5;      // share of requests
constexpr double kMeanFirstBlocks = 14;
constexpr double kMeanTurnBlocks = 6;
constexpr double kMeanGapMs = 300;

using Blocks = std::vector<uint64_t>;

double exponential(Random& random, double mean) {
  return -mean * std::log1p(-random.unit());
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    for (uint64_t i = 0; i < kSystemPrompts; ++i) {
      append_new(prompts_.emplace_back(), 1 + random_.below(4));
    }
  }

  TraceRequest next() {
    Blocks& blocks = pick_conversation();
    TraceRequest request;
    timestamp_ms_ += exponential(random_, kMeanGapMs);
    request.timestamp_ms = std::floor(timestamp_ms_);
    request.hash_ids = blocks;
    request.input_length = blocks.size() * kTokensPerBlock - random_.below(kTokensPerBlock);
    request.output_length = 1 + static_cast<uint64_t>(exponential(random_, 340));
    return request;
  }

 private:
  void append_new(Blocks& blocks, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) blocks.push_back(next_id_++);
  }

  void append_new(Blocks& blocks, double mean) {
    append_new(blocks, 1 + static_cast<uint64_t>(exponential(random_, mean)));
  }

  // The first prompts are the popular ones, as are the conversations that spoke last.
  size_t skewed_below(size_t range) {
    const double unit = random_.unit();
    return std::min(range - 1, static_cast<size_t>(unit * unit * static_cast<double>(range)));
  }

  Blocks& pick_conversation() {
    const bool is_new = open_.empty() || random_.unit() < kNewConversation;
    Blocks blocks;
    if (is_new) {
      blocks = prompts_[skewed_below(prompts_.size())];
      append_new(blocks, kMeanFirstBlocks);
      if (open_.size() == kOpenConversations) open_.erase(open_.begin());
    } else {
      const auto chosen = open_.end() - 1 - static_cast<ptrdiff_t>(skewed_below(open_.size()));
      blocks = std::move(*chosen);
      open_.erase(chosen);
      append_new(blocks, kMeanTurnBlocks);
    }
    blocks.resize(std::min(blocks.size(), kLongestConversation));
    return open_.emplace_back(std::move(blocks));
  }

  Random random_;
  uint64_t next_id_ = 0;
  double timestamp_ms_ = 0;
  std::vector<Blocks> prompts_;
  std::vector<Blocks> open_;  // the one that spoke last is last
};

}  // namespace

Trace generate_trace(const TraceGeneratorOptions& options) {
  Trace trace;
  trace.name = fmt::format("built-in generator, seed {}", options.seed);
  trace.synthetic = true;
  Generator generator(options.seed);
  trace.requests.reserve(options.requests);
  for (uint64_t i = 0; i < options.requests; ++i) trace.requests.push_back(generator.next());
  return trace;
}

}  // namespace farpage
