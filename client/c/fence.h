#pragma once

#include <farpage/farpage.h>

#include <memory>

#include "client/c/owner.h"
#include "client/gpu/stream_fence.h"

// Shared with the tickets of fetches that decide it.
struct farpage_fence {
  farpage::c_api::Owner owner;
  std::shared_ptr<farpage::StreamFence> shared;
};
