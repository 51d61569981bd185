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
  const bool is_new = record.visits == 0;
  if (is_new && access.head >= heads_.size()) heads_.resize(access.head + size_t{1});
  Head& head = heads_[is_new ? access.head : record.head];
  if (head.step != step) ++head.turns;
  head.step = step;
  if (is_new) add(access, head, step, segmenter);
  if (head.newest == access.page && head.turns != record.last_turn) {
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

void PageRecords::add(const Access& access, Head& head, uint64_t step, const Segmenter& segmenter) {
  PageRecord& record = records_.at(access.page);
  record.first_turn = head.turns;
  record.head = access.head;
  record.block = static_cast<uint32_t>(head.blocks.size());
  record.segment = segmenter.segment();
  record.phase = segmenter.phase();
  const bool is_first = head.blocks.empty() || head.blocks.back().new_in != step;
  head.blocks.push_back({step, is_first ? 0 : head.blocks.back().nth + 1, access.page});
  head.newest = access.page;
}

void PageRecords::on_forget(PageNumber page) {
  const PageRecord record = records_[page];
  if (record.visits == 0) return;
  records_.at(page) = {};
  Head& head = heads_[record.head];
  head.blocks[record.block].page = kNone;
  if (2 * ++head.forgotten > head.blocks.size()) drop_forgotten(head);
}

void PageRecords::drop_forgotten(Head& head) {
  std::erase_if(head.blocks, [](const Block& block) { return block.page == kNone; });
  uint32_t place = 0;
  for (const Block& block : head.blocks) records_.at(block.page).block = place++;
  head.forgotten = 0;
}

PageNumber PageRecords::page_of(uint32_t head, uint32_t block) const {
  if (head >= heads_.size() || block >= heads_[head].blocks.size()) return kNone;
  return heads_[head].blocks[block].page;
}

// Most heads have as many older pages.
PageNumber PageRecords::same_of(PageNumber page, uint32_t head) const {
  const PageRecord& record = records_[page];
  const Block& own = heads_[record.head].blocks[record.block];
  const std::vector<Block>& blocks = heads_[head].blocks;
  if (record.block < blocks.size() && blocks[record.block].is_same(own)) {
    return blocks[record.block].page;
  }
  const auto found = std::ranges::lower_bound(
      blocks, own, [](const Block& one, const Block& other) { return one.is_before(other); });
  return found != blocks.end() && found->is_same(own) ? found->page : kNone;
}

}  // namespace farpage::prefetch
