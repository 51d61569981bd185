#pragma once

#include <memory>
#include <utility>

#include "tier/link/node_session.h"

namespace farpage {

// Something is under way at a node, so that the link to it does not rest. Move-only.
class LinkUse {
 public:
  explicit LinkUse(std::shared_ptr<NodeSession> link) : link_(std::move(link)) {
    link_->begin_use();
  }
  LinkUse(LinkUse&&) noexcept = default;
  LinkUse& operator=(LinkUse&& other) noexcept {
    std::swap(link_, other.link_);
    return *this;
  }
  ~LinkUse() {
    if (link_ != nullptr) link_->end_use();
  }

  const std::shared_ptr<NodeSession>& link() const { return link_; }

 private:
  std::shared_ptr<NodeSession> link_;
};

}  // namespace farpage
