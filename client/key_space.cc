#include "client/key_space.h"

#include <utility>

namespace farpage {

Result<KeySpace> KeySpace::from_facts(std::span<const Fact> facts) {
  auto canonical = canonical_facts(facts);
  if (!canonical) return tl::unexpected(canonical.error());
  return KeySpace(name_space_of(*canonical));
}

PageKey KeySpace::key(std::span<const std::byte> engine_key) const {
  return key(std::string_view(reinterpret_cast<const char*>(engine_key.data()), engine_key.size()));
}

std::string KeySpace::digest() const {
  return name_space_digits(name_space_);
}

}  // namespace farpage
