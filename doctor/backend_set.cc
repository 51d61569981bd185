#include "doctor/backend_set.h"

#include <array>
#include <utility>

namespace farpage::doctor {
namespace {

constexpr std::array<std::pair<std::string_view, BackendSet>, 5> kNames = {
    {{"shm", kShm}, {"tcp", kTcp}, {"verbs", kVerbs}, {"ucx", kUcx}, {"cuda", kCuda}}};

}  // namespace

std::optional<BackendSet> find_backend(std::string_view name) {
  for (const auto& [known, backend] : kNames) {
    if (known == name) return backend;
  }
  return std::nullopt;
}

std::string backend_names(BackendSet backends) {
  std::string names;
  for (const auto& [name, backend] : kNames) {
    if ((backends & backend) == 0) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace farpage::doctor
