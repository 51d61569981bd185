#include "prefetch/milestones/candidates.h"

#include <algorithm>

namespace farpage::prefetch {

void Candidates::on_return(PageNumber page, uint64_t step, const PageRecords& records) {
  add_segment(page, step, records);
  add_heads(page, step, records);
  for (const Companions::Companion& each : companions_.of(page)) {
    if (each.weight > 0) add(each.page, page, step, kCompanion);
  }
  companions_.on_return(page, step);
}

void Candidates::on_step(uint64_t step) {
  for (size_t i = 0; i < all_.size();) {
    if (all_[i].trigger_step + kSteps > step) {
      ++i;
    } else {
      remove(i);
    }
  }
}

void Candidates::on_forget(PageNumber page) {
  companions_.on_forget(page);
  if (place_[page] != PageRecords::kNone) remove(place_[page]);
}

void Candidates::remove(size_t place) {
  place_.at(all_[place].page) = PageRecords::kNone;
  all_[place] = all_.back();
  all_.pop_back();
  if (place < all_.size()) place_.at(all_[place].page) = static_cast<uint32_t>(place);
}

void Candidates::add_segment(PageNumber page, uint64_t step, const PageRecords& records) {
  const PageRecord& record = records[page];
  const auto add_if_of_it = [&](uint32_t block) {
    const PageNumber other = records.page_of(record.head, block);
    if (other == PageRecords::kNone || records[other].segment != record.segment) return false;
    add(other, page, step, kSegment);
    return true;
  };
  for (uint32_t i = 1; i <= std::min(kBlocks, record.block); ++i) {
    if (!add_if_of_it(record.block - i)) break;
  }
  for (uint32_t i = 1; i <= kBlocks; ++i) {
    if (!add_if_of_it(record.block + i)) break;
  }
}

void Candidates::add_heads(PageNumber page, uint64_t step, const PageRecords& records) {
  const PageRecord& record = records[page];
  const uint32_t layer = record.head / layout_.heads;
  const uint32_t own = record.head % layout_.heads;
  const auto range = [](uint32_t centre, uint32_t aside, uint32_t count) {
    return std::pair(centre - std::min(centre, aside), std::min(centre + aside + 1, count));
  };
  const auto layers = range(layer, kLayersAside, layout_.layers);
  const auto heads = range(own, kHeadsAside, layout_.heads);
  for (uint32_t other = layers.first; other < layers.second; ++other) {
    for (uint32_t head = heads.first; head < heads.second; ++head) {
      if (other == layer && head == own) continue;
      const PageNumber same = records.same_of(page, other * layout_.heads + head);
      if (same != PageRecords::kNone) add(same, page, step, other == layer ? kHeads : kLayers);
    }
  }
}

void Candidates::add(PageNumber page, PageNumber trigger, uint64_t step, Relation relation) {
  uint32_t& place = place_.at(page);
  if (place == PageRecords::kNone) {
    if (all_.size() == kMost) return;
    place = static_cast<uint32_t>(all_.size());
    all_.push_back({page, trigger, step, 0, 0, 0, 0, 0, 0});
  }
  Candidate& candidate = all_[place];
  candidate.trigger = trigger;
  candidate.trigger_step = step;
  candidate.relations |= relation;
  if (candidate.triggers < UINT8_MAX) ++candidate.triggers;
  if ((relation & (kHeads | kLayers)) == 0) return;
  if (candidate.block_step + kSteps <= step) {
    candidate.block_step = step;
    candidate.same_block = 0;
  }
  if (candidate.same_block < UINT8_MAX) ++candidate.same_block;
}

}  // namespace farpage::prefetch
