#include "tier/fetch/payload_checks.h"

#include <algorithm>
#include <utility>

namespace farpage {

bool PayloadChecks::add(MemoryPlace place, const PayloadCheck& check) {
  Place& there = at(place);
  if (there.checker == nullptr) return false;
  there.waiting.push_back(check);
  ++under_way_;
  return true;
}

PayloadChecks::Place& PayloadChecks::at(MemoryPlace place) {
  const auto known = std::ranges::find(places_, place, &Place::place);
  if (known != places_.end()) return *known;
  Place& made = places_.emplace_back();
  made.place = place;
  auto checker = factory_->make(place, most_);
  if (checker) {
    made.checker = std::move(*checker);
    made.waiting.reserve(most_);
  } else {
    warnings_.warn(checker.error().message);
  }
  return made;
}

void PayloadChecks::begin(Place& place) {
  if (place.waiting.empty()) return;
  const size_t begun = place.checker->begin(place.waiting);
  place.waiting.erase(place.waiting.begin(),
                      place.waiting.begin() + static_cast<std::ptrdiff_t>(begun));
}

}  // namespace farpage
