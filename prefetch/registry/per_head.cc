#include "prefetch/registry/per_head.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "prefetch/per_page.h"
#include "prefetch/registry/registry.h"

namespace farpage::prefetch {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

class PerHead final : public Policy {
 public:
  PerHead(const ChosenAllocation& allocation, const ChosenOf<Policy>& policy,
          const Setting& setting)
      : policy_(policy),
        setting_(within_all_pages(setting)),
        allocation_(allocation.make(setting_)),
        heads_(setting_.layout.all()) {}

  void on_access(const Access& access) override {
    FARPAGE_CHECK(access.head < heads_.size());
    if (allocation_->on_access(access)) order_all();
    Place& place = places_.at(access.page);
    if (place.head == kNone) place = first_place(access);
    Access own = access;
    own.page = place.number;
    own.head = 0;
    heads_[place.head]->policy->on_access(own);
    demanding_ = place.is_resident ? kNone : place.head;
  }
  void on_insert(PageNumber page, uint64_t step) override {
    Place& place = places_.at(page);
    place.is_resident = true;
    change_resident(place.head, 1);
    heads_[place.head]->policy->on_insert(place.number, step);
    demanding_ = kNone;
  }
  void on_evict(PageNumber page, uint64_t step) override {
    Place& place = places_.at(page);
    place.is_resident = false;
    change_resident(place.head, -1);
    heads_[place.head]->policy->on_evict(place.number, step);
  }
  PageNumber victim(uint64_t step) override {
    const Head& head = *heads_[most_over()];
    return head.pages[head.policy->victim(step)];
  }
  void set_aside(PageNumber page) override {
    const Place& place = places_[page];
    Head& head = *heads_[place.head];
    head.policy->set_aside(place.number);
    if (head.aside++ == 0) with_aside_.push_back(place.head);
    if (!can_give(head)) by_left_.erase({left(place.head), place.head});
  }
  void put_back() override {
    for (const uint32_t name : with_aside_) {
      heads_[name]->policy->put_back();
      heads_[name]->aside = 0;
      by_left_.emplace(left(name), name);
    }
    with_aside_.clear();
  }

 private:
  // Made at its first page. Its policy may keep the setting.
  struct Head {
    Setting setting;
    std::unique_ptr<Policy> policy;
    std::vector<PageNumber> pages;  // by its own numbers for them
    int64_t resident = 0;
    int64_t aside = 0;  // of these
  };
  struct Place {
    uint32_t head = kNone;
    PageNumber number = 0;  // of its head's
    bool is_resident = false;
  };

  // More than there can be shall not be divided.
  static Setting within_all_pages(Setting setting) {
    constexpr uint64_t kMostPages = std::numeric_limits<PageNumber>::max();
    setting.budget_pages = std::min(setting.budget_pages, kMostPages);
    return setting;
  }

  Place first_place(const Access& access) {
    if (heads_[access.head] == nullptr) heads_[access.head] = make_head(access.head);
    Head& head = *heads_[access.head];
    head.pages.push_back(access.page);
    return {access.head, static_cast<PageNumber>(head.pages.size() - 1), false};
  }

  std::unique_ptr<Head> make_head(uint32_t name) {
    auto head = std::make_unique<Head>();
    head->setting = setting_;
    head->setting.budget_pages = allocation_->shares()[name];
    head->setting.layout = {};
    if (setting_.page_bytes != nullptr) {
      head->setting.page_bytes = [this, made = head.get()](PageNumber own) {
        return setting_.page_bytes(made->pages[own]);
      };
    }
    head->policy = policy_.make(head->setting);
    return head;
  }

  static bool can_give(const Head& head) { return head.resident > head.aside; }

  // The rest of its share; below 0: how far it is over.
  int64_t left(uint32_t name) const {
    return static_cast<int64_t>(allocation_->shares()[name]) - heads_[name]->resident;
  }

  void change_resident(uint32_t name, int64_t by) {
    Head& head = *heads_[name];
    if (can_give(head)) by_left_.erase({left(name), name});
    head.resident += by;
    if (can_give(head)) by_left_.emplace(left(name), name);
  }

  void order_all() {
    by_left_.clear();
    for (uint32_t name = 0; name < heads_.size(); ++name) {
      if (heads_[name] != nullptr && can_give(*heads_[name])) by_left_.emplace(left(name), name);
    }
  }

  // Without the page that is demanded, a head with its share to the page would take from the first
  // of those that have theirs, and not from itself.
  uint32_t most_over() const {
    const auto& most = *by_left_.begin();
    if (demanding_ == kNone || !can_give(*heads_[demanding_])) return most.second;
    return std::min(most, std::pair(left(demanding_) - 1, demanding_)).second;
  }

  const ChosenOf<Policy>& policy_;
  const Setting setting_;
  const std::unique_ptr<Allocation> allocation_;
  std::vector<std::unique_ptr<Head>> heads_;  // null before their first access
  PerPage<Place> places_;
  std::set<std::pair<int64_t, uint32_t>> by_left_;  // heads that can give a page
  std::vector<uint32_t> with_aside_;                // heads
  uint32_t demanding_ = kNone;  // the head of the page that was accessed last, unless it was there
};

}  // namespace

std::unique_ptr<Policy> per_head(const ChosenAllocation& allocation, const ChosenOf<Policy>& policy,
                                 const Setting& setting) {
  return std::make_unique<PerHead>(allocation, policy, setting);
}

}  // namespace farpage::prefetch
