#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "client/c/errors.h"
#include "client/key_space.h"
#include "integrity/page_key.h"

namespace c_api = farpage::c_api;

static_assert(sizeof(farpage_key_t) == sizeof(farpage::PageKey));

namespace {

std::string_view bytes_at(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

farpage_code_t require_bytes(const void* data, size_t bytes, const char* name) {
  return bytes == 0 ? FARPAGE_OK : c_api::require(data, name);
}

// One behind the other.
struct Names {
  const void* data;
  const char* argument;
  size_t bytes;  // of each
  size_t count;
};

farpage_code_t write_keys(const void* name_space, size_t name_space_bytes, const Names& names,
                          farpage_key_t* keys) {
  std::memset(keys, 0, names.count * sizeof *keys);
  if (const auto code = require_bytes(name_space, name_space_bytes, "name_space");
      code != FARPAGE_OK) {
    return code;
  }
  if (const auto code = require_bytes(names.data, names.bytes, names.argument);
      code != FARPAGE_OK) {
    return code;
  }
  return c_api::guarded([&] {
    const std::string_view space = bytes_at(name_space, name_space_bytes);
    const auto* name = static_cast<const char*>(names.data);
    for (size_t i = 0; i < names.count; ++i) {
      const farpage::PageKey made = farpage::make_page_key(space, {name, names.bytes});
      std::memcpy(keys[i].bytes, &made, sizeof made);
      name += names.bytes;
    }
    return FARPAGE_OK;
  });
}

farpage::Result<std::vector<farpage::Fact>> read_facts(const farpage_fact_t* facts, size_t count) {
  std::vector<farpage::Fact> read;
  read.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const farpage_fact_t& fact = facts[i];
    const bool has_name = fact.name != nullptr || fact.name_bytes == 0;
    if (!has_name || (fact.value == nullptr && fact.value_bytes > 0)) {
      return farpage::fail(farpage::Code::kInvalid,
                           fmt::format("fact {}: {} is null: set it, or its length to 0", i,
                                       has_name ? "value" : "name"));
    }
    read.push_back({bytes_at(fact.name, fact.name_bytes), bytes_at(fact.value, fact.value_bytes)});
  }
  return read;
}

}  // namespace

farpage_code_t farpage_namespace(const farpage_fact_t* facts, size_t count,
                                 uint8_t name_space[FARPAGE_NAMESPACE_BYTES]) {
  if (const auto code = c_api::require(name_space, "name_space"); code != FARPAGE_OK) return code;
  std::memset(name_space, 0, FARPAGE_NAMESPACE_BYTES);
  if (const auto code = require_bytes(facts, count, "facts"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    const auto made = read_facts(facts, count).and_then([](const auto& read) {
      return farpage::KeySpace::from_facts(read);
    });
    if (!made) return c_api::refuse(made.error());
    made->name_space().copy(reinterpret_cast<char*>(name_space), FARPAGE_NAMESPACE_BYTES);
    return FARPAGE_OK;
  });
}

farpage_code_t farpage_key(const void* name_space, size_t name_space_bytes, const void* name,
                           size_t name_bytes, farpage_key_t* key) {
  if (const auto code = c_api::require(key, "key"); code != FARPAGE_OK) return code;
  const Names names = {name, "name", name_bytes, 1};
  return write_keys(name_space, name_space_bytes, names, key);
}

farpage_code_t farpage_keys(const void* name_space, size_t name_space_bytes, const void* names,
                            size_t name_bytes, size_t count, farpage_key_t* keys) {
  if (count == 0) return FARPAGE_OK;
  if (const auto code = c_api::require(keys, "keys"); code != FARPAGE_OK) return code;
  return write_keys(name_space, name_space_bytes, {names, "names", name_bytes, count}, keys);
}
