#include "doctor/backend_set.h"

#include <algorithm>
#include <array>

#include "doctor/backend_cuda.h"
#include "doctor/backend_shm.h"
#include "doctor/backend_tcp.h"
#include "doctor/backend_ucx.h"
#include "doctor/backend_verbs.h"

namespace farpage::doctor {
namespace {

constexpr std::array<const BackendCheck*, 5> kChecks = {&kShmCheck, &kTcpCheck, &kVerbsCheck,
                                                        &kUcxCheck, &kCudaCheck};

uint32_t bit_of(const BackendCheck& backend) {
  return uint32_t{1} << (std::ranges::find(kChecks, &backend) - kChecks.begin());
}

}  // namespace

std::span<const BackendCheck* const> every_check() {
  return kChecks;
}

const BackendCheck* find_check(std::string_view name) {
  const auto found = std::ranges::find(kChecks, name, &BackendCheck::name);
  return found == kChecks.end() ? nullptr : *found;
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
  for (const BackendCheck* backend : kChecks) {
    if (!has(*backend)) continue;
    if (!names.empty()) names += ", ";
    names += backend->name;
  }
  return names;
}

}  // namespace farpage::doctor
