#include "prefetch/milestones/page_record.h"

#include <algorithm>

namespace farpage::prefetch {
namespace {

constexpr float kMassWeight = 0.1F;

void add_to_mean(float& mean, float value, uint32_t count) {
  mean += (value - mean) / static_cast<float>(count);
}

}  // namespace

bool PageRecords::on_access(const Access& access, uint64_t step, const Segmenter& segmenter) {
  PageRecord& record = records_.at(access.page);
  Head& head = heads_[access.head];
  if (head.step != step) ++head.turns;
  head.step = step;
  const bool is_new = record.visits == 0;
  if (is_new) {
    record.first_turn = head.turns;
    record.head = access.head;
    record.block = static_cast<uint32_t>(head.pages.size());
    record.segment = segmenter.segment();
    record.phase = segmenter.phase();
    const auto same = std::equal_range(head.new_in.begin(), head.new_in.end(), step);
    record.nth = static_cast<uint32_t>(same.second - same.first);
    head.pages.push_back(access.page);
    head.new_in.push_back(step);
  }
  if (record.block + 1 == head.pages.size() && head.turns != record.last_turn) {
    ++record.tokens;
    add_to_mean(record.entropy, access.entropy, record.tokens);
    add_to_mean(record.margin, access.margin, record.tokens);
  }
  record.mass += kMassWeight * (access.mass - record.mass);
  const uint64_t gap = head.turns - record.last_turn;
  const bool is_back = !is_new && gap > kAwayTurns;
  if (is_back) {
    record.last_gap = gap;
    record.longest_gap = std::max(record.longest_gap, gap);
  }
  if (is_new || is_back) ++record.visits;
  record.last_turn = head.turns;
  return is_back;
}

PageNumber PageRecords::page_of(uint32_t head, uint32_t block) const {
  if (head >= heads_.size() || block >= heads_[head].pages.size()) return kNone;
  return heads_[head].pages[block];
}

PageNumber PageRecords::same_of(PageNumber page, uint32_t head) const {
  const PageRecord& record = records_[page];
  const std::vector<uint64_t>& new_in = heads_[head].new_in;
  const uint64_t step = heads_[record.head].new_in[record.block];
  const auto first = std::ranges::lower_bound(new_in, step);
  const auto block = static_cast<uint64_t>(first - new_in.begin()) + record.nth;
  return block < new_in.size() && new_in[block] == step ? heads_[head].pages[block] : kNone;
}

}  // namespace farpage::prefetch
