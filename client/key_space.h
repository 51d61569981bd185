#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "integrity/facts.h"
#include "integrity/page_key.h"

namespace farpage {

// The keys of all pages that depend on the same facts. The same facts give the same keys in every
// process, machine and language, and other facts give other keys: docs/formats/keys.md. A value,
// which any thread may use.
class KeySpace {
 public:
  // Their order does not count. kInvalid: there are none; a fact has no name, or its name or value
  // is too long; two have the same name.
  static Result<KeySpace> from_facts(std::span<const Fact> facts);

  // The key of the page that the engine calls so: any bytes, of any length. Allocates nothing.
  PageKey key(std::string_view engine_key) const { return make_page_key(name_space_, engine_key); }
  PageKey key(std::span<const std::byte> engine_key) const;

  const std::string& name_space() const { return name_space_; }  // 32 bytes, for make_page_key
  // The first half of the namespace in 32 hexadecimal digits, for people to compare.
  std::string digest() const;

 private:
  explicit KeySpace(std::string name_space) : name_space_(std::move(name_space)) {}

  std::string name_space_;
};

}  // namespace farpage
