#include "client/c/fence.h"

#include <utility>

#include "client/c/client.h"
#include "client/c/errors.h"

namespace c_api = farpage::c_api;

farpage_code_t farpage_fence_new(farpage_t* client, int device, uint32_t most_pages,
                                 farpage_fence_t** fence) {
  if (const auto code = c_api::require(fence, "fence"); code != FARPAGE_OK) return code;
  *fence = nullptr;
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    auto made = client->tier->make_fence(device, most_pages);
    if (!made) return c_api::refuse(made.error());
    *fence = new farpage_fence{{}, std::move(*made), client->tickets};
    return FARPAGE_OK;
  });
}

farpage_code_t farpage_fence_wait(farpage_fence_t* fence, void* stream) {
  if (const auto code = c_api::require_handle(fence, "fence"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    return c_api::answer(fence->shared->wait_on(static_cast<farpage::cuda::Stream>(stream)));
  });
}

farpage_code_t farpage_fence_clear(farpage_fence_t* fence) {
  if (const auto code = c_api::require_handle(fence, "fence"); code != FARPAGE_OK) return code;
  if (fence->shared->fence().clear()) return FARPAGE_OK;
  return c_api::refuse(FARPAGE_BUSY, "a fetch with the fence is under way: wait for its ticket");
}

uint64_t farpage_fence_address(const farpage_fence_t* fence) {
  if (c_api::require_handle(fence, "fence") != FARPAGE_OK) return 0;
  return fence->shared->address();
}

void farpage_fence_free(farpage_fence_t* fence) {
  if (fence != nullptr && fence->owner.is_here()) delete fence;
}
