#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "lab/vtime/lower_tiers.h"
#include "prefetch/page_source.h"

namespace farpage::vtime {

// A link to each tier, in virtual time: it carries one page after another in the order in which
// they were begun, and each arrives a latency after it has left.
class VirtualWire final : public prefetch::PageSource {
 public:
  using PageNumber = prefetch::PageNumber;

  struct Landed {
    PageNumber page = 0;
    bool is_demand = false;
  };

  // Time stands still there, some 146 years on: later times cannot be told apart.
  static constexpr uint64_t kEndNs = uint64_t{1} << 62;
  // Of a latency, and of a page's time on the way.
  static constexpr uint64_t kMostNs = uint64_t{1} << 60;

  // Of a page of so many bits a number.
  static uint64_t transfer_ns(uint64_t page_bytes, uint32_t bits, const TierOptions& tier);

  VirtualWire(const std::vector<TierOptions>& tiers, uint64_t page_bytes,
              const MakePlacement& make_placement = {});

  bool begin(PageNumber page) override;
  uint64_t now_ns() const { return now_ns_; }
  void demand(PageNumber page);
  // Lets time pass until a page has landed, or until then.
  std::optional<Landed> next(uint64_t until_ns);
  void keep(PageNumber page) { tiers_.keep(page); }
  void forget(PageNumber page) { tiers_.give_back(page); }
  void on_access(const prefetch::Access& access);

  uint64_t waited_ns() const { return waited_ns_; }  // by demands, for a link to be free
  uint64_t written_pages() const { return tiers_.written_pages(); }
  // To pages that have lost precision.
  uint64_t imprecise_accesses() const { return imprecise_accesses_; }
  double imprecise_mass() const { return mass_ > 0 ? imprecise_mass_ / mass_ : 0; }  // its share

 private:
  struct Link {
    TierOptions tier;
    uint64_t free_at_ns = 0;
  };
  struct Arrival {
    uint64_t at_ns;
    uint64_t number;  // of all that were begun
    Landed landed;

    bool operator>(const Arrival& other) const {
      return std::tie(at_ns, number) > std::tie(other.at_ns, other.number);
    }
  };

  // When it leaves.
  uint64_t carry(PageNumber page, bool is_demand);

  const uint64_t page_bytes_;
  LowerTiers tiers_;
  std::vector<Link> links_;  // a tier each
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  uint64_t begun_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t waited_ns_ = 0;
  uint64_t imprecise_accesses_ = 0;
  double imprecise_mass_ = 0;
  double mass_ = 0;
};

}  // namespace farpage::vtime
