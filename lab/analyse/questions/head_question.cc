#include "lab/analyse/questions/head_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "prefetch/registry/registry.h"

namespace farpage::analyse {
namespace {

constexpr size_t kSelected = 64;  // pages of a head in a step, FlexiCache's K
constexpr uint64_t kSoonSteps = 5;
constexpr double kUnstable = 0.25;  // of the heads
constexpr double kTimes = 3;
constexpr size_t kLeastHeads = 4;

using Rates = Sums<4>;  // wanted again and gone, of unstable heads; and of stable ones

double unstable(const Rates& sums) {
  return ratio(sums[0], sums[1]);
}
double stable(const Rates& sums) {
  return ratio(sums[2], sums[3]);
}

}  // namespace

// An lru memory that tells what it let go.
class HeadQuestion::Memory final : public prefetch::Policy {
 public:
  explicit Memory(uint64_t budget_pages)
      : policy_(prefetch::choose_policy("lru")->make(setting_of(budget_pages))),
        memory_(budget_pages, *this) {}

  // Null: nothing.
  const prefetch::PageNumber* let_go_for(const prefetch::Access& access) {
    has_let_go_ = false;
    memory_.access(access);
    return has_let_go_ ? &let_go_ : nullptr;
  }

  void on_access(const prefetch::Access& access) override { policy_->on_access(access); }
  void on_insert(prefetch::PageNumber page, uint64_t step) override {
    policy_->on_insert(page, step);
  }
  void on_evict(prefetch::PageNumber page, uint64_t step) override {
    policy_->on_evict(page, step);
    let_go_ = page;
    has_let_go_ = true;
  }
  prefetch::PageNumber victim(uint64_t step) override { return policy_->victim(step); }
  void set_aside(prefetch::PageNumber page) override { policy_->set_aside(page); }
  void put_back() override { policy_->put_back(); }

 private:
  static prefetch::Setting setting_of(uint64_t budget_pages) {
    prefetch::Setting setting;
    setting.budget_pages = budget_pages;
    return setting;
  }

  const std::unique_ptr<prefetch::Policy> policy_;
  prefetch::PagedMemory memory_;
  prefetch::PageNumber let_go_ = 0;
  bool has_let_go_ = false;
};

HeadQuestion::HeadQuestion(uint64_t budget_pages, bool has_mass, size_t parts)
    : budget_pages_(budget_pages),
      has_mass_(has_mass),
      parts_(parts),
      memory_(std::make_unique<Memory>(budget_pages)) {}

HeadQuestion::~HeadQuestion() = default;

void HeadQuestion::step(const Step& step, const Ahead&, const Reuse&) {
  std::vector<Head*> active;
  for (const prefetch::Access& access : step.accesses) {
    demand(access, step);
    Head& head = heads_[access.head];
    if (head.demanded.empty()) active.push_back(&head);
    head.demanded.emplace_back(access.mass, access.page);
  }
  for (Head* head : active) select(*head);
}

void HeadQuestion::demand(const prefetch::Access& access, const Step& step) {
  Page& page = pages_.at(access.page);
  if (!page.is_known) ++heads_[access.head].pages;
  page.is_known = true;
  page.head = access.head;
  if (page.gone_in != UINT64_MAX) {
    const bool is_soon = step.index - page.gone_in <= kSoonSteps;
    // Counted where it went.
    if (is_soon) ++heads_[access.head].gone[page.gone_part].wanted_again;
    page.gone_in = UINT64_MAX;
  }
  if (const prefetch::PageNumber* gone = memory_->let_go_for(access)) {
    Page& victim = pages_.at(*gone);
    victim.gone_in = step.index;
    victim.gone_part = step.part;
    Head& head = heads_[victim.head];
    head.gone.resize(parts_);
    ++head.gone[step.part].pages;
  }
}

void HeadQuestion::select(Head& head) {
  auto& demanded = head.demanded;
  const size_t most = has_mass_ ? std::min(kSelected, demanded.size()) : demanded.size();
  std::ranges::partial_sort(demanded, demanded.begin() + static_cast<ptrdiff_t>(most),
                            std::greater<>());
  std::vector<prefetch::PageNumber> selected;
  for (size_t i = 0; i < most; ++i) selected.push_back(demanded[i].second);
  std::ranges::sort(selected);
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  head.selections.add(std::move(selected), head.pages);
  demanded.clear();
}

Finding HeadQuestion::end(uint64_t seed) const {
  const std::string question = fmt::format(
      "is what an lru memory of {} pages lets go of the least stable quarter of heads wanted again "
      "within 5 steps more than three times as often as what it lets go of the others?",
      budget_pages_);
  if (heads_.size() < kLeastHeads) {
    return not_asked("H2", question,
                     fmt::format("it needs {} heads at least, and the trace tells of {}",
                                 kLeastHeads, heads_.size()));
  }
  std::vector<std::pair<double, uint32_t>> steadiest_last;
  for (const auto& [name, head] : heads_) {
    steadiest_last.emplace_back(head.selections.stability(), name);
  }
  std::ranges::sort(steadiest_last);
  const auto unstable_heads =
      static_cast<size_t>(kUnstable * static_cast<double>(steadiest_last.size()));
  std::vector<Share> stability_of_unstable;
  std::vector<Share> stability_of_stable;
  std::vector<Rates> parts(parts_);
  Rates all = {};
  for (size_t i = 0; i < steadiest_last.size(); ++i) {
    const bool is_unstable = i < unstable_heads;
    (is_unstable ? stability_of_unstable : stability_of_stable)
        .push_back({steadiest_last[i].first, 1});
    const std::vector<Gone>& gone = heads_.at(steadiest_last[i].second).gone;
    const size_t first = is_unstable ? 0 : 2;
    for (size_t part = 0; part < gone.size(); ++part) {
      parts[part][first] += gone[part].wanted_again;
      parts[part][first + 1] += gone[part].pages;
      all[first + 1] += gone[part].pages;
    }
  }
  if (all[1] == 0 || all[3] == 0) {
    return not_asked(
        "H2", question,
        "nothing goes of one of the two: choose a smaller --budget than the pages that "
        "are used");
  }
  const std::span<const Rates> rates = parts;
  const Estimate of_stable = estimate(rates, seed, stable);
  // A ratio of nothing is no number, so the verdict is of the difference.
  const Estimate beyond = estimate(
      rates, seed, [](const Rates& sums) { return unstable(sums) - kTimes * stable(sums); });
  Finding finding = {"H2", question, answer_above(beyond, 0), ""};
  finding.figures = {
      {"stability_of_unstable", "overlap beyond chance of unstable heads' selections (by heads)",
       estimate_share(stability_of_unstable, seed)},
      {"stability_of_stable", "of the others", estimate_share(stability_of_stable, seed)},
      {"wanted_again_of_unstable", "wanted again, of what goes of unstable heads",
       estimate(rates, seed, unstable)},
      {"wanted_again_of_stable", "of the others", of_stable}};
  if (of_stable.low > 0) {
    finding.figures.push_back(
        {"times", "the first over the second", estimate(rates, seed, [](const Rates& sums) {
           return ratio(unstable(sums), stable(sums));
         })});
  }
  finding.verdict =
      in_words(finding.answer,
               "what goes of unstable heads is wanted again at once more than three times as often",
               "what goes of unstable heads is not wanted again at once three times as often",
               "whether it is wanted again three times as often is open");
  return finding;
}

}  // namespace farpage::analyse
