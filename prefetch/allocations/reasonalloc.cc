#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "prefetch/allocations/allocations.h"
#include "prefetch/allocations/shares.h"
#include "prefetch/importance/token_counter.h"
#include "prefetch/per_page.h"
#include "prefetch/ranking_pace.h"

namespace farpage::prefetch {
namespace {

// How many pages, the heaviest first, have that share of all the mass.
double pages_with(double mass_share, const std::vector<double>& heaviest_first) {
  const double enough =
      mass_share * std::accumulate(heaviest_first.begin(), heaviest_first.end(), 0.0);
  double mass = 0;
  size_t pages = 0;
  while (mass < enough) mass += heaviest_first[pages++];
  return static_cast<double>(pages);
}

class ReasonAlloc final : public Allocation {
 public:
  ReasonAlloc(const Setting& setting, double threshold, double probes, double window, double floor)
      : budget_pages_(setting.budget_pages),
        heads_(setting.layout.heads),
        threshold_(threshold),
        probes_(static_cast<uint64_t>(probes)),
        floor_(floor),
        layers_(setting.layout.layers),
        shares_(divide(budget_pages_, std::vector<double>(setting.layout.all(), 1))),
        counter_(setting.layout),
        pace_(static_cast<uint64_t>(window)) {}

  bool on_access(const Access& access) override {
    const uint64_t token = counter_.index_of(access);
    const bool is_due = is_probed_ ? pace_.is_due(token, shares_.size()) : token >= probes_;
    if (is_due) allocate(token);
    pace_.on_access();
    if (access.mass > 0) {
      double& mass = masses_.at(access.page);
      if (mass == 0) layers_[access.head / heads_].scored.push_back({access.page, access.head});
      mass += static_cast<double>(access.mass);
    }
    return is_due;
  }
  std::span<const uint64_t> shares() const override { return shares_; }

 private:
  struct Scored {
    PageNumber page;
    uint32_t head;
  };
  struct Layer {
    uint64_t pages = 0;          // its share of the budget
    std::vector<Scored> scored;  // that have gathered mass since the last allocation
  };

  void allocate(uint64_t token) {
    if (!is_probed_) divide_among_layers();
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::vector<uint64_t> pages = divide_among_heads(layers_[layer]);
      std::ranges::copy(pages, shares_.begin() + static_cast<ptrdiff_t>(layer * heads_));
      for (const Scored& each : layers_[layer].scored) masses_.at(each.page) = 0;
      layers_[layer].scored.clear();
    }
    is_probed_ = true;
    pace_.on_ranked(token);
  }

  void divide_among_layers() {
    std::vector<double> demands;
    for (const Layer& layer : layers_) {
      demands.push_back(pages_with(threshold_, heaviest_first(layer)));
    }
    const std::vector<uint64_t> pages = divide(budget_pages_, smoothed(demands));
    for (size_t i = 0; i < pages.size(); ++i) layers_[i].pages = pages[i];
  }

  // By how many of the layer's heaviest pages, as many as it may keep, are theirs.
  std::vector<uint64_t> divide_among_heads(const Layer& layer) const {
    const std::vector<double> masses = heaviest_first(layer);
    std::vector<double> counts(heads_, 0);
    const auto most = std::min<uint64_t>(layer.pages, masses.size());
    for (const Scored& each : layer.scored) {
      if (most > 0 && masses_[each.page] >= masses[most - 1]) ++counts[each.head % heads_];
    }
    const double even_pages = static_cast<double>(layer.pages) / static_cast<double>(heads_);
    return divide(layer.pages, smoothed(counts), floor_ * even_pages);
  }

  std::vector<double> heaviest_first(const Layer& layer) const {
    std::vector<double> masses;
    for (const Scored& each : layer.scored) masses.push_back(masses_[each.page]);
    std::ranges::sort(masses, std::greater());
    return masses;
  }

  const uint64_t budget_pages_;
  const uint32_t heads_;  // in each layer
  const double threshold_;
  const uint64_t probes_;
  const double floor_;      // of an even share
  PerPage<double> masses_;  // since the last allocation
  std::vector<Layer> layers_;
  std::vector<uint64_t> shares_;  // by head
  TokenCounter counter_;
  bool is_probed_ = false;
  RankingPace pace_;  // in tokens
};

}  // namespace

// ReasonAlloc. Its probes of the layers are made offline; here they are the first tokens, in
// each of which every layer has its turn, and until they are over shares are even. A page's score
// is the mass that it has gathered since shares were made last, and one that gathered none has
// none.
AllocationInfo reasonalloc() {
  return {
      .name = "reasonalloc",
      .what =
          "layers share the budget by how many pages had most of their mass in the first "
          "tokens; heads share their layer's by how many of its heaviest pages were lately "
          "theirs",
      .parameters = {{"threshold", "the share of a layer's mass that counts", 0.93, 0, 1},
                     {"probes", "how many tokens tell what a layer needs", 8, 1, 8},
                     {"window", "in tokens, after which heads' shares are made anew", 128, 1, 1e6},
                     {"floor", "of an even share, that each head of a layer has", 0.25, 0, 1}},
      .make = [](const Setting& setting, Values values) -> std::unique_ptr<Allocation> {
        return std::make_unique<ReasonAlloc>(setting, values[0], values[1], values[2], values[3]);
      },
      .needs = {Signal::kMass}};
}

}  // namespace farpage::prefetch
