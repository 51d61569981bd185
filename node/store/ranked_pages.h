#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "integrity/page_key.h"
#include "prefetch/page_list.h"
#include "prefetch/policy.h"

namespace farpage {

// A store's pages as a policy ranks them. It numbers pages by their keys and not by their slots, so
// that a policy knows a page that comes back. Of pages that have gone it remembers three for each
// slot; the number of the one that was neither there nor wanted for longest is given to the next.
// A node sees no steps: each access is one of its own. One thread.
class RankedPages {
 public:
  static constexpr uint64_t kNumbersPerSlot = 4;

  RankedPages(std::unique_ptr<prefetch::Policy> policy, uint32_t slots);

  // Somebody puts the page, which is an access. Until it has come, more such calls are none.
  void want(const PageKey& key);
  // The page lies in this slot from now on, and in no other. A page that want() did not name, and
  // that is not known, is accessed now: policies rank nothing else.
  void come(const PageKey& key, uint32_t slot);
  // A reader says that it has used what lies there, whatever slot it names.
  void use(uint32_t slot);
  // The slot's former page, if any, is gone.
  void go(uint32_t slot);

  // The first victim among the pages that may go. Nothing, too, where the first that the policy
  // names may not: so many alone are asked about.
  std::optional<uint32_t> victim(const std::function<bool(uint32_t slot)>& may_go);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kMostAsked = 64;
  struct Page {
    PageKey key;
    uint32_t slot = kNone;
    bool is_wanted = false;
  };
  // Clients choose the keys, and do not know the seed: they make no long chains.
  struct Hash {
    uint64_t seed;
    size_t operator()(const PageKey& key) const noexcept;
  };

  prefetch::PageNumber number_of(const PageKey& key);
  prefetch::PageNumber forget_one();
  void access(prefetch::PageNumber number);
  uint64_t step() const { return accesses_ == 0 ? 0 : accesses_ - 1; }

  std::unique_ptr<prefetch::Policy> policy_;
  size_t most_pages_;
  std::unordered_map<PageKey, prefetch::PageNumber, Hash> numbers_;
  std::vector<Page> pages_;                 // by number
  std::vector<prefetch::PageNumber> held_;  // by slot
  prefetch::PageList gone_;                 // the next to be forgotten first
  uint64_t accesses_ = 0;
};

}  // namespace farpage
