#pragma once

#include <memory>

#include "prefetch/registry/registry.h"

namespace farpage::prefetch {

// A policy of that kind for each head, which hears of its head's pages alone, numbered from 0 as
// they are first accessed, and is made for its share of the budget at the first of them. Other
// heads may use the unused part of a share: only when the whole budget is used up a page goes, of
// the head whose pages are the most over its share, counted with the page that is demanded; of
// equal ones the first. The objects that it is made of outlive it.
std::unique_ptr<Policy> per_head(const ChosenAllocation& allocation, const ChosenOf<Policy>& policy,
                                 const Setting& setting);

}  // namespace farpage::prefetch
