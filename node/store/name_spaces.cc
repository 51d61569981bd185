#include "node/store/name_spaces.h"

#include <algorithm>

#include "integrity/facts.h"

namespace farpage {

void keep_largest(std::vector<NameSpaceStatus>& name_spaces) {
  std::ranges::stable_sort(name_spaces, std::greater(), &NameSpaceStatus::pages);
  if (name_spaces.size() > kMaxNameSpaces) name_spaces.resize(kMaxNameSpaces);
}

void NameSpaces::told(const std::string& name_space, const std::string& facts) {
  Entry& entry = entries_[number(name_space_tag(name_space))];
  if (entry.tag == 0) return;
  entry.digits = name_space_digits(name_space);
  // Up to the end of a line.
  entry.facts = facts.substr(0, kFactsBytes);
  if (facts.size() > kFactsBytes) entry.facts.resize(entry.facts.rfind('\n') + 1);
}

void NameSpaces::came(uint32_t slot, uint32_t tag) {
  const uint8_t of = tag == 0 ? kNone : number(tag);
  of_slot_[slot] = of;
  ++entries_[of].pages;
}

void NameSpaces::went(uint32_t slot) {
  Entry& entry = entries_[std::exchange(of_slot_[slot], kNone)];
  if (entry.pages > 0) --entry.pages;
}

// Once there are as many as it may know, one without pages gives way.
uint8_t NameSpaces::number(uint32_t tag) {
  if (const auto known = numbers_.find(tag); known != numbers_.end()) return known->second;
  if (entries_.size() <= kMost) {
    entries_.push_back({.tag = tag});
    return numbers_[tag] = static_cast<uint8_t>(entries_.size() - 1);
  }
  const auto idle = std::find_if(entries_.begin() + 1, entries_.end(),
                                 [](const Entry& entry) { return entry.pages == 0; });
  if (idle == entries_.end()) return kNone;
  numbers_.erase(idle->tag);
  *idle = {.tag = tag};
  return numbers_[tag] = static_cast<uint8_t>(idle - entries_.begin());
}

std::vector<NameSpaceStatus> NameSpaces::status(uint64_t page_bytes) const {
  std::vector<NameSpaceStatus> all;
  for (const Entry& entry : entries_) {
    if (entry.tag == 0 || entry.pages == 0) continue;
    all.push_back({.name_space = entry.digits.empty() ? tag_digits(entry.tag) : entry.digits,
                   .facts = entry.facts,
                   .pages = entry.pages,
                   .held_bytes = entry.pages * page_bytes});
  }
  keep_largest(all);
  return all;
}

}  // namespace farpage
