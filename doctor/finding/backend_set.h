#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "doctor/finding/backend_check.h"

namespace farpage::doctor {

// Every backend that the doctor knows, in the order in which it names them.
std::span<const BackendCheck* const> every_check();
// Null: it knows none of this name.
const BackendCheck* find_check(std::string_view name);

class BackendSet {
 public:
  static BackendSet every();
  // Those that have it: BackendSet::with(&BackendCheck::locks_memory).
  template <typename Property>
  static BackendSet with(Property property) {
    BackendSet set;
    for (const BackendCheck* backend : every_check()) {
      if (std::invoke(property, *backend)) set.add(*backend);
    }
    return set;
  }

  BackendSet() = default;
  // Not null.
  BackendSet(std::initializer_list<const BackendCheck*> backends);

  void add(const BackendCheck& backend);
  bool has(const BackendCheck& backend) const;
  bool meets(const BackendSet& other) const { return (bits_ & other.bits_) != 0; }
  // "shm, tcp"
  std::string names() const;
  bool operator==(const BackendSet&) const = default;

 private:
  uint32_t bits_ = 0;  // by the place in every_check()
};

}  // namespace farpage::doctor
