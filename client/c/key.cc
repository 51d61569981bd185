#include <cstring>
#include <string_view>

#include "client/c/errors.h"
#include "integrity/page_key.h"

namespace c_api = farpage::c_api;

static_assert(sizeof(farpage_key_t) == sizeof(farpage::PageKey));

farpage_code_t farpage_key(const void* name_space, size_t name_space_bytes, const void* name,
                           size_t name_bytes, farpage_key_t* key) {
  if (const auto code = c_api::require(key, "key"); code != FARPAGE_OK) return code;
  *key = {};
  if (name_space_bytes > 0 && name_space == nullptr) return c_api::require(nullptr, "name_space");
  if (name_bytes > 0 && name == nullptr) return c_api::require(nullptr, "name");
  return c_api::guarded([&] {
    const farpage::PageKey made =
        farpage::make_page_key({static_cast<const char*>(name_space), name_space_bytes},
                               {static_cast<const char*>(name), name_bytes});
    std::memcpy(key->bytes, &made, sizeof made);
    return FARPAGE_OK;
  });
}
