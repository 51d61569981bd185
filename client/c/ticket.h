#pragma once

#include <farpage/farpage.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/c/callback.h"
#include "client/c/owner.h"
#include "client/gpu/stream_fence.h"
#include "client/runner/completions.h"
#include "client/runner/ticket.h"

namespace farpage::c_api {

class LiveTickets;

// What the results of a ticket are.
enum class Answers : uint8_t { kVerdicts, kResults, kRemoved };

}  // namespace farpage::c_api

struct farpage_ticket {
  explicit farpage_ticket(farpage::c_api::Answers kind) : answers(kind) {}
  // Waits until the operation is released.
  ~farpage_ticket();
  farpage_ticket(const farpage_ticket&) = delete;
  farpage_ticket& operator=(const farpage_ticket&) = delete;

  bool lends(const farpage_region& region) const {
    return std::ranges::find(regions, &region) != regions.end() && !operation->released();
  }

  farpage::c_api::Owner owner;
  const farpage::c_api::Answers answers;
  std::vector<const farpage_region*> regions;  // that its pages lie in
  // These outlive the operation, which may run the callback and add the tag when it is done.
  std::shared_ptr<farpage::Completions> completions;
  std::shared_ptr<farpage::StreamFence> fence;
  farpage::c_api::Callback callback;
  // Null until it is submitted. Shared with a client that is being closed, and waits for it.
  std::shared_ptr<const farpage::Ticket> operation;
  std::shared_ptr<farpage::c_api::LiveTickets> live;  // that it is among, or null
  size_t place = 0;                                   // there

  // Made for the caller once it is done.
  std::vector<farpage_page_verdict_t> verdicts;
  std::vector<farpage_put_result_t> results;
  std::string why;
};
