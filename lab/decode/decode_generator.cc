#include "lab/decode/decode_generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lab/decode/draw.h"
#include "lab/decode/streams.h"
#include "lab/decode/zipf.h"

namespace farpage::decode {
namespace {

using prefetch::Access;
using prefetch::PageNumber;

constexpr PageNumber kNoNumber = std::numeric_limits<PageNumber>::max();

uint32_t sinks_of(const DecodeOptions& options) {
  return static_cast<uint32_t>((options.sink_tokens + options.page_tokens - 1) /
                               options.page_tokens);
}

uint32_t recent_of(const DecodeOptions& options) {
  return static_cast<uint32_t>(
      std::round(options.recent_share * static_cast<double>(options.pages_wanted)));
}

void shuffle(Random& random, std::span<uint32_t> values) {
  for (size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[random.below(left)]);
  }
}

// The sinks have the most attention, then the newest pages; how far ones follow differs between
// heads, and stays.
std::vector<uint32_t> draw_ranks(Random& random, uint64_t pages, uint32_t nears) {
  std::vector<uint32_t> ranks(pages);
  std::iota(ranks.begin(), ranks.end(), 0);
  shuffle(random, std::span(ranks).subspan(nears));
  return ranks;
}

}  // namespace

DecodeGenerator::DecodeGenerator(const DecodeOptions& options)
    : options_(options),
      script_(options_),
      random_(stream_of(options_, Stream::kSelection)),
      features_(options_, script_),
      wakes_(options_, script_),
      sinks_(sinks_of(options_)),
      recent_(recent_of(options_)),
      copies_(1 + (options_.copied_least + options_.copied_most) / 2 *
                      static_cast<double>(options_.all_heads() - 1)),
      returns_left_(script_.positions()),
      position_(static_cast<uint32_t>(script_.position_of(0))) {
  for (const double churn : churn_of_heads()) {
    const double copied =
        options_.copied_least + random_.unit() * (options_.copied_most - options_.copied_least);
    heads_.push_back({HeadSelection(options_.pages_wanted - sinks_ - recent_,
                                    options_.resting_pages, churn, script_.milestones()),
                      copied, draw_ranks(random_, options_.pages_wanted, sinks_ + recent_),
                      std::vector<PageNumber>(script_.positions(), kNoNumber)});
  }
  const double exponent = zipf_exponent(options_.pages_wanted, options_.top_fifth_mass);
  for (uint64_t pages = 0; pages <= options_.pages_wanted; ++pages) {
    const auto shares = zipf_shares(pages, exponent);
    masses_.emplace_back(shares.begin(), shares.end());
  }
  // Before the first step, every head has looked at the prompt.
  for (Head& head : heads_) {
    for (uint64_t i = 0; i < options_.resting_pages; ++i) {
      const uint32_t position = head.selection.draw_asleep(random_, far_range(), 1);
      if (position != kNoPosition) head.selection.rest(position);
    }
  }
}

// Unstable heads fill one layer after another, in an order that is drawn.
std::vector<double> DecodeGenerator::churn_of_heads() {
  std::vector<uint32_t> layers(options_.layers);
  std::iota(layers.begin(), layers.end(), 0);
  shuffle(random_, layers);
  auto unstable = static_cast<uint64_t>(
      std::round(options_.unstable_heads * static_cast<double>(options_.all_heads())));
  std::vector<double> churn(options_.all_heads(), options_.churn_stable);
  for (const uint32_t layer : layers) {
    for (uint64_t head = 0; head < options_.heads && unstable > 0; ++head, --unstable) {
      churn[layer * options_.heads + head] = options_.churn_unstable;
    }
  }
  return churn;
}

FarRange DecodeGenerator::far_range() const {
  const uint32_t end = position_ + 1 > recent_ ? position_ + 1 - recent_ : 0;
  return {sinks_, static_cast<uint32_t>(script_.prompt_positions()), std::max(end, sinks_)};
}

void DecodeGenerator::step(std::vector<Access>& to) {
  if (script_.position_of(step_) != position_) begin_page();
  for (Head& head : heads_) head.selection.churn(random_, far_range(), options_.phoenix);
  if (script_.redraws(step_)) redraw();
  wake_due();
  schedule_sleepers();
  end_milestone();
  const TokenFeatures features = features_.of(step_);
  for (uint32_t head = 0; head < heads_.size(); ++head) emit(head, features, to);
  ++step_;
}

void DecodeGenerator::begin_page() {
  ++position_;
  const FarRange range = far_range();
  if (range.end == range.sinks) return;
  for (Head& head : heads_) head.selection.rest(range.end - 1);
}

// A head that copies takes the same page for the same place, or none where that stays as it is.
void DecodeGenerator::redraw() {
  const FarRange range = far_range();
  const size_t slots = heads_.front().selection.far().size();
  double woken = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    const auto first = static_cast<uint32_t>(random_.below(heads_.size()));
    const bool is_drawn = draw_chance(random_, options_.redraw);
    const uint32_t drawn = heads_[first].selection.draw_asleep(random_, range, options_.phoenix);
    for (uint32_t i = 0; i < heads_.size(); ++i) {
      Head& head = heads_[i];
      if (i != first && copies(i)) {
        if (!is_drawn || drawn == kNoPosition) continue;
        wakes_.follow(random_, step_, drawn, i);
        ++woken;
        continue;
      }
      const bool is_own = i == first ? is_drawn : draw_chance(random_, options_.redraw);
      const uint32_t position =
          i == first ? drawn : head.selection.draw_asleep(random_, range, options_.phoenix);
      if (!is_own || position == kNoPosition) continue;
      head.selection.replace(slot, position, step_);
      ++woken;
    }
  }
  if (options_.burst_steps > 0) wakes_.note_burst(woken);
}

void DecodeGenerator::wake_due() {
  while (const auto due = wakes_.next(step_)) {
    if (due->goes_first) {
      wake_first(*due);
    } else {
      wake(*due);
    }
  }
}

void DecodeGenerator::wake_first(Wake due) {
  const bool is_milestone = script_.milestones()[due.position];
  if (!is_milestone && draw_chance(random_, options_.phoenix)) {
    due.position = heads_[due.head].selection.draw_asleep(random_, far_range(), 1);
  }
  if (due.position == kNoPosition) return;
  wake(due);
  for (uint32_t i = 0; i < heads_.size(); ++i) {
    if (i != due.head && copies(i)) wakes_.follow(random_, step_, due.position, i);
  }
  // Without returns left, it is dead from now on.
  if (!is_milestone || --returns_left_[due.position] == 0) return;
  wakes_.schedule(random_, step_, gap_factor(), due.position, due.head, copies_);
}

bool DecodeGenerator::copies(uint32_t head) {
  return draw_chance(random_, heads_[head].copied);
}

void DecodeGenerator::wake(const Wake& wake) {
  if (wake.position >= far_range().end) return;  // it is among the newest, which are all read
  heads_[wake.head].selection.wake(wake.position, step_, random_);
}

void DecodeGenerator::schedule_sleepers() {
  for (uint32_t i = 0; i < heads_.size(); ++i) {
    for (const uint32_t position : heads_[i].selection.take_fallen_asleep()) {
      // Those of the prompt come back as phoenixes.
      if (position < script_.prompt_positions()) continue;
      // As a wake reaches several heads, so many fewer of them are needed.
      if (!draw_chance(random_, options_.sleepers_return / copies_)) continue;
      wakes_.schedule(random_, step_, 1, position, i, copies_);
    }
  }
}

void DecodeGenerator::end_milestone() {
  const auto position = script_.milestone_after(step_);
  if (!position) return;
  const double returns = std::round(draw_exponential(random_, options_.milestone_returns));
  if (returns < 1) return;
  returns_left_[*position] = static_cast<uint32_t>(returns);
  const auto head = static_cast<uint32_t>(random_.below(heads_.size()));
  wakes_.schedule(random_, step_, gap_factor(), static_cast<uint32_t>(*position), head, copies_);
}

double DecodeGenerator::gap_factor() const {
  switch (script_.phase_at(step_)) {
    case Phase::kExplore:
      return options_.explore_gap;
    case Phase::kVerify:
      return options_.verify_gap;
    case Phase::kConclude:
      return options_.conclude_gap;
  }
  return 1;
}

void DecodeGenerator::emit(uint32_t head, const TokenFeatures& features, std::vector<Access>& to) {
  selected_.clear();
  const FarRange range = far_range();
  for (uint32_t sink = 0; sink < std::min(sinks_, position_ + 1); ++sink) {
    selected_.push_back({sink, sink});
  }
  for (uint32_t position = range.end; position <= position_; ++position) {
    selected_.push_back({position, sinks_ + position_ - position});
  }
  const std::vector<uint32_t>& far = heads_[head].selection.far();
  for (uint32_t slot = 0; slot < far.size(); ++slot) {
    if (far[slot] != kNoPosition) selected_.push_back({far[slot], sinks_ + recent_ + slot});
  }
  const std::vector<float>& masses = masses_[selected_.size()];
  const bool is_full = selected_.size() == options_.pages_wanted;
  for (uint32_t i = 0; i < selected_.size(); ++i) {
    Access access;
    access.step = step_;
    access.page = number(head, selected_[i].position);
    access.head = head;
    access.mass = masses[is_full ? heads_[head].rank_of_place[selected_[i].place] : i];
    access.entropy = features.entropy;
    access.margin = features.margin;
    access.mark = features.mark;
    to.push_back(access);
  }
}

PageNumber DecodeGenerator::number(uint32_t head, uint32_t position) {
  PageNumber& number = heads_[head].numbers[position];
  if (number == kNoNumber) {
    number = static_cast<PageNumber>(pages_.size());
    pages_.push_back({head, position});
  }
  return number;
}

}  // namespace farpage::decode
