#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Pages by their score, each in it once, the lowest on top; of equal ones the one that came in
// first. A heap in which each node has four children, so that it is half as deep. A page whose
// score is raised moves once it comes to the top: most have others before that.
class PageHeap {
 public:
  size_t size() const { return nodes_.size(); }
  bool contains(PageNumber page) const { return places_[page] != kNone; }
  // Of one that is not empty.
  PageNumber top() {
    while (nodes_.front().placed_by < nodes_.front().score) {
      nodes_.front().placed_by = nodes_.front().score;
      sink(0);
    }
    return nodes_.front().page;
  }
  // All that are in it, in no order.
  PageNumber page(size_t place) const { return nodes_[place].page; }

  void push(PageNumber page, double score) {
    FARPAGE_CHECK(!contains(page));
    push({score, ++pushed_, page, score});
  }

  void change(PageNumber page, double score) {
    const size_t place = places_[page];
    FARPAGE_CHECK(place != kNone);
    Node& node = nodes_[place];
    node.score = score;
    if (!(score < node.placed_by)) return;
    node.placed_by = score;
    rise(place);
  }

  void remove(PageNumber page) {
    const size_t place = places_[page];
    FARPAGE_CHECK(place != kNone);
    places_.at(page) = kNone;
    const Node last = nodes_.back();
    nodes_.pop_back();
    if (last.page == page) return;
    nodes_[place] = last;
    rise(place);
    sink(places_[last.page]);
  }

  // Takes a page out until put_back(), which puts it where it was.
  void set_aside(PageNumber page) {
    aside_.push_back(nodes_[places_[page]]);
    remove(page);
  }
  void put_back() {
    for (const Node& node : aside_) push(node);
    aside_.clear();
  }
  size_t aside() const { return aside_.size(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kChildren = 4;
  struct Node {
    double placed_by;  // its score, or less
    uint64_t pushed;
    PageNumber page;
    double score;

    bool before(const Node& other) const {
      return std::pair(placed_by, pushed) < std::pair(other.placed_by, other.pushed);
    }
  };

  void push(const Node& node) {
    nodes_.push_back(node);
    rise(nodes_.size() - 1);
  }

  void put(size_t place, const Node& node) {
    nodes_[place] = node;
    places_.at(node.page) = static_cast<uint32_t>(place);
  }

  void rise(size_t place) {
    const Node node = nodes_[place];
    while (place > 0) {
      const size_t parent = (place - 1) / kChildren;
      if (!node.before(nodes_[parent])) break;
      put(place, nodes_[parent]);
      place = parent;
    }
    put(place, node);
  }

  void sink(size_t place) {
    const Node node = nodes_[place];
    while (true) {
      const size_t first = place * kChildren + 1;
      if (first >= nodes_.size()) break;
      const size_t end = std::min(first + kChildren, nodes_.size());
      size_t least = first;
      for (size_t child = first + 1; child < end; ++child) {
        if (nodes_[child].before(nodes_[least])) least = child;
      }
      if (!nodes_[least].before(node)) break;
      put(place, nodes_[least]);
      place = least;
    }
    put(place, node);
  }

  std::vector<Node> nodes_;
  std::vector<Node> aside_;
  PerPage<uint32_t> places_ = PerPage<uint32_t>(kNone);
  uint64_t pushed_ = 0;
};

}  // namespace farpage::prefetch
