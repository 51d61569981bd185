#include "client/c/completions.h"

#include <utility>

#include "client/c/errors.h"

namespace c_api = farpage::c_api;

farpage_code_t farpage_completions_new(farpage_completions_t** completions) {
  if (const auto code = c_api::require(completions, "completions"); code != FARPAGE_OK) return code;
  *completions = nullptr;
  return c_api::guarded([&] {
    auto queue = farpage::Completions::make();
    if (!queue) return c_api::refuse(queue.error());
    *completions = new farpage_completions{{}, std::move(*queue)};
    return FARPAGE_OK;
  });
}

int farpage_completions_fd(const farpage_completions_t* completions) {
  if (c_api::require_handle(completions, "completions") != FARPAGE_OK) return -1;
  return completions->queue->descriptor();
}

farpage_code_t farpage_completions_take(farpage_completions_t* completions, uint64_t* tags,
                                        size_t room, size_t* taken) {
  if (const auto code = c_api::require(taken, "taken"); code != FARPAGE_OK) return code;
  *taken = 0;
  if (const auto code = c_api::require_handle(completions, "completions"); code != FARPAGE_OK) {
    return code;
  }
  if (room > 0 && tags == nullptr) return c_api::require(nullptr, "tags");
  return c_api::guarded([&] {
    *taken = completions->queue->take({tags, room});
    return FARPAGE_OK;
  });
}

void farpage_completions_free(farpage_completions_t* completions) {
  if (completions != nullptr && completions->owner.is_here()) delete completions;
}
