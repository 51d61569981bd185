#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/status/status.h"

namespace farpage {

// Of several, those with the most pages first, and no more than a status takes.
void keep_largest(std::vector<NameSpaceStatus>& name_spaces);

// How many of a node's pages are of which namespace, by the tags in their headers. It keeps a
// number a slot of its own, so that a damaged header costs no count. Of namespaces it knows 255 at
// one time: the pages of others are not counted. One thread.
class NameSpaces {
 public:
  explicit NameSpaces(uint32_t slots) : of_slot_(slots, kNone), entries_(1) {}

  // A client's facts, in lines, of which it keeps the first 4 KiB: the namespace of this digest.
  void told(const std::string& name_space, const std::string& facts);

  // The slot has a page now, of this tag; 0: of none.
  void came(uint32_t slot, uint32_t tag);
  void went(uint32_t slot);
  // The tag of the page in this slot; 0: of none, or one that is not counted.
  uint32_t tag(uint32_t slot) const { return entries_[of_slot_[slot]].tag; }

  // Those that have pages.
  std::vector<NameSpaceStatus> status(uint64_t page_bytes) const;

 private:
  struct Entry {
    uint32_t tag = 0;
    uint64_t pages = 0;
    std::string digits = {};  // of the whole namespace; empty: no client has told of it yet
    std::string facts = {};
  };
  static constexpr uint8_t kNone = 0;
  static constexpr size_t kMost = 255;
  static constexpr size_t kFactsBytes = 4096;

  uint8_t number(uint32_t tag);

  std::vector<uint8_t> of_slot_;
  std::vector<Entry> entries_;                     // the first is of no namespace
  std::unordered_map<uint32_t, uint8_t> numbers_;  // of tags
};

}  // namespace farpage
