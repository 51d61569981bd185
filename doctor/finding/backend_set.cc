#include "doctor/finding/backend_set.h"

#include <algorithm>

namespace farpage::doctor {
namespace {

uint32_t bit_of(const BackendCheck& backend) {
  return uint32_t{1} << (std::ranges::find(every_check(), &backend) - every_check().begin());
}

}  // namespace

const BackendCheck* find_check(std::string_view name) {
  const auto found = std::ranges::find(every_check(), name, &BackendCheck::name);
  return found == every_check().end() ? nullptr : *found;
}

BackendSet BackendSet::every() {
  return with([](const BackendCheck&) { return true; });
}

BackendSet::BackendSet(std::initializer_list<const BackendCheck*> backends) {
  for (const BackendCheck* backend : backends) add(*backend);
}

void BackendSet::add(const BackendCheck& backend) {
  bits_ |= bit_of(backend);
}

bool BackendSet::has(const BackendCheck& backend) const {
  return (bits_ & bit_of(backend)) != 0;
}

std::string BackendSet::names() const {
  std::string names;
  for (const BackendCheck* backend : every_check()) {
    if (!has(*backend)) continue;
    if (!names.empty()) names += ", ";
    names += backend->name;
  }
  return names;
}

}  // namespace farpage::doctor
