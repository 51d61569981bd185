#include "client/c/client.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/protection.h"
#include "client/c/batch.h"
#include "client/c/callback.h"
#include "client/c/errors.h"

namespace c_api = farpage::c_api;
using farpage::Farpage;
using farpage::OpenOptions;
using farpage::Region;
using farpage::Result;

namespace {

template <typename Read>
farpage_code_t open(farpage_t** client, Read&& read) {
  return c_api::guarded([&] {
    auto made = std::make_unique<farpage_client>();
    const Result<OpenOptions> options = read();
    if (!options) return c_api::refuse(options.error());
    auto opened = Farpage::open(*options);
    if (!opened) return c_api::refuse(opened.error());
    made->tier = std::move(*opened);
    *client = made.release();
    return FARPAGE_OK;
  });
}

// As a region of the client's, which no other one overlaps.
farpage_code_t add(farpage_t* client, Region memory, bool is_read_only, farpage_region_t** region) {
  auto made = std::make_unique<farpage_region>();
  made->client = client;
  made->is_read_only = is_read_only;
  made->memory = std::move(memory);
  farpage_region* handle = made.get();
  if (client->regions.add(made)) {
    *region = handle;
    return FARPAGE_OK;
  }
  return c_api::refuse(FARPAGE_EXISTS,
                       fmt::format("some of the {} bytes at {} are registered already: use that "
                                   "region, or end it with farpage_unregister() first",
                                   made->memory.bytes(), fmt::ptr(made->memory.data())));
}

}  // namespace

farpage_code_t farpage_open(const char* toml_text, farpage_t** client) {
  if (const auto code = c_api::require(client, "client"); code != FARPAGE_OK) return code;
  *client = nullptr;
  if (const auto code = c_api::require(toml_text, "toml_text"); code != FARPAGE_OK) return code;
  return open(client, [&] { return OpenOptions::from_text(toml_text); });
}

farpage_code_t farpage_open_file(const char* path, farpage_t** client) {
  if (const auto code = c_api::require(client, "client"); code != FARPAGE_OK) return code;
  *client = nullptr;
  if (const auto code = c_api::require(path, "path"); code != FARPAGE_OK) return code;
  return open(client, [&] { return OpenOptions::from_file(path); });
}

farpage_code_t farpage_open_overridden(const char* path, const char* const* overrides, size_t count,
                                       farpage_t** client) {
  if (const auto code = c_api::require(client, "client"); code != FARPAGE_OK) return code;
  *client = nullptr;
  if (const auto code = c_api::require(path, "path"); code != FARPAGE_OK) return code;
  for (size_t i = 0; i < count; ++i) {
    const bool is_there = overrides != nullptr && overrides[i] != nullptr;
    if (!is_there) return c_api::require(nullptr, "overrides");
  }
  return open(client, [&] {
    const std::vector<std::string> own(overrides, overrides + count);
    return OpenOptions::from_file(path, own);
  });
}

farpage_code_t farpage_close(farpage_t* client) {
  if (client == nullptr) return FARPAGE_OK;
  if (const auto code = c_api::require_owner(client->owner); code != FARPAGE_OK) return code;
  if (c_api::in_callback()) {
    return c_api::refuse(FARPAGE_BUSY,
                         "a callback runs on a thread of the client's, and cannot close it: close "
                         "it on another thread");
  }
  return c_api::guarded([&] {
    const std::unique_ptr<farpage_client> closed(client);
    closed->tickets->wait_released();
    closed->tickets->free_left();
    closed->regions.clear();
    return FARPAGE_OK;
  });
}

uint64_t farpage_page_bytes(const farpage_t* client) {
  if (c_api::require_handle(client, "client") != FARPAGE_OK) return 0;
  return client->tier->page_bytes();
}

farpage_code_t farpage_register(farpage_t* client, void* data, uint64_t bytes,
                                farpage_region_t** region) {
  if (const auto code = c_api::require(region, "region"); code != FARPAGE_OK) return code;
  *region = nullptr;
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  if (const auto code = c_api::require(data, "data"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    if (bytes == 0 || bytes > std::numeric_limits<uintptr_t>::max() - begin) {
      return c_api::refuse(FARPAGE_INVALID,
                           fmt::format("{} bytes at {} are no memory: set bytes to how many there "
                                       "are to register",
                                       bytes, data));
    }
    const auto protection = farpage::protection_of(data, bytes);
    if (!protection) return c_api::refuse(protection.error());
    auto memory = client->tier->client().register_memory({static_cast<std::byte*>(data), bytes});
    if (!memory) return c_api::refuse(memory.error());
    return add(client, std::move(*memory), *protection == farpage::Protection::kReadOnly, region);
  });
}

farpage_code_t farpage_register_gpu(farpage_t* client, uint64_t address, uint64_t bytes,
                                    farpage_region_t** region) {
  if (const auto code = c_api::require(region, "region"); code != FARPAGE_OK) return code;
  *region = nullptr;
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    auto memory = client->tier->register_gpu_memory(address, bytes);
    if (!memory) return c_api::refuse(memory.error());
    return add(client, std::move(*memory), false, region);
  });
}

farpage_code_t farpage_register_gpu_blocks(farpage_t* client, const farpage_gpu_blocks_t* blocks,
                                           farpage_region_t** region) {
  if (const auto code = c_api::require(region, "region"); code != FARPAGE_OK) return code;
  *region = nullptr;
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  if (const auto code = c_api::require(blocks, "blocks"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    const auto given = c_api::read_gpu_blocks(*blocks);
    if (!given) return c_api::refuse(given.error());
    auto memory = client->tier->register_gpu_blocks(*given);
    if (!memory) return c_api::refuse(memory.error());
    return add(client, std::move(*memory), false, region);
  });
}

uint64_t farpage_region_address(const farpage_region_t* region) {
  if (c_api::require_handle(region, "region") != FARPAGE_OK) return 0;
  return reinterpret_cast<uint64_t>(region->memory.data());
}

farpage_code_t farpage_unregister(farpage_region_t* region) {
  if (region == nullptr) return FARPAGE_OK;
  if (const auto code = c_api::require_owner(region->owner); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    farpage_client& client = *region->client;
    const auto taken = client.regions.take(*region, [&] { return client.tickets->lends(*region); });
    if (taken != nullptr) return FARPAGE_OK;
    return c_api::refuse(FARPAGE_BUSY,
                         "a ticket still lends memory of the region: wait for it with "
                         "farpage_ticket_wait_released(), and try again");
  });
}
