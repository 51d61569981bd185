#pragma once

#include <farpage/farpage.h>

#include <memory>

#include "client/c/live_tickets.h"
#include "client/c/owner.h"
#include "client/gpu/stream_fence.h"

struct farpage_fence {
  farpage::c_api::Owner owner;
  std::shared_ptr<farpage::StreamFence> shared;       // with the tickets of fetches that decide it
  std::weak_ptr<farpage::c_api::LiveTickets> client;  // by what is its alone
};
