#include "client/c/ticket.h"

#include <utility>

#include "base/clock.h"
#include "client/c/errors.h"
#include "client/c/live_tickets.h"
#include "client/runner/deadline.h"

namespace c_api = farpage::c_api;
using c_api::Answers;

namespace {

// `wait` until a deadline, at once if it need not wait.
template <typename Wait>
farpage_code_t wait_for(const farpage_ticket_t* ticket, uint64_t timeout_us, Wait&& wait) {
  if (const auto code = c_api::require_handle(ticket, "ticket"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    if (wait(0)) return FARPAGE_OK;
    if (timeout_us > 0 && c_api::in_callback()) {
      return c_api::refuse(FARPAGE_BUSY, "a callback must not wait: wait on another thread");
    }
    if (timeout_us > 0 && wait(farpage::deadline_after(farpage::boottime_clock(), timeout_us)))
      return FARPAGE_OK;
    return c_api::refuse(FARPAGE_TIMEOUT, "the operation goes on: wait for it again");
  });
}

const char* call_of(Answers answers) {
  switch (answers) {
    case Answers::kVerdicts:
      return "farpage_ticket_verdicts()";
    case Answers::kResults:
      return "farpage_ticket_results()";
    case Answers::kRemoved:
      return "farpage_ticket_removed()";
  }
  return "";
}

farpage_code_t require_answers(const farpage_ticket_t& ticket, Answers answers) {
  if (ticket.answers != answers) {
    return c_api::refuse(FARPAGE_INVALID,
                         std::string("this ticket is of another operation, which answers by ") +
                             call_of(ticket.answers));
  }
  if (ticket.operation->done()) return FARPAGE_OK;
  return c_api::refuse(FARPAGE_BUSY,
                       "the operation is not done: wait for it with farpage_ticket_wait()");
}

// A verdict's place may change until the operation is released. A page that is ready is its
// caller's: nothing but a hedge would still write to it, and there are none here.
void fill(std::vector<farpage_page_verdict_t>& verdicts, const farpage::Ticket& operation) {
  const bool is_released = operation.released();
  const auto from = operation.verdicts();
  verdicts.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const bool is_ready = from[i].verdict == farpage::Verdict::kReady;
    farpage_page_verdict_t& to = verdicts[i];
    to.verdict = is_ready ? FARPAGE_READY : FARPAGE_RECOMPUTE;
    to.reason = c_api::to_c(from[i].reason);
    to.version = is_ready ? from[i].version : 0;
    to.took_ns = from[i].took_ns;
    to.held = !is_ready && !is_released ? 1 : 0;
  }
}

}  // namespace

farpage_ticket::~farpage_ticket() {
  if (operation != nullptr) operation->wait_released(farpage::kNever);
  if (live != nullptr) live->remove(*this);
}

int farpage_ticket_done(const farpage_ticket_t* ticket) {
  if (c_api::require_handle(ticket, "ticket") != FARPAGE_OK) return -1;
  return ticket->operation->done() ? 1 : 0;
}

int farpage_ticket_released(const farpage_ticket_t* ticket) {
  if (c_api::require_handle(ticket, "ticket") != FARPAGE_OK) return -1;
  return ticket->operation->released() ? 1 : 0;
}

farpage_code_t farpage_ticket_wait(const farpage_ticket_t* ticket, uint64_t timeout_us) {
  return wait_for(ticket, timeout_us,
                  [&](uint64_t until_ns) { return ticket->operation->wait_until(until_ns); });
}

farpage_code_t farpage_ticket_wait_released(const farpage_ticket_t* ticket, uint64_t timeout_us) {
  return wait_for(ticket, timeout_us,
                  [&](uint64_t until_ns) { return ticket->operation->wait_released(until_ns); });
}

farpage_code_t farpage_ticket_verdicts(farpage_ticket_t* ticket,
                                       const farpage_page_verdict_t** verdicts, size_t* count) {
  if (const auto code = c_api::require(verdicts, "verdicts"); code != FARPAGE_OK) return code;
  if (const auto code = c_api::require(count, "count"); code != FARPAGE_OK) return code;
  *verdicts = nullptr;
  *count = 0;
  if (const auto code = c_api::require_handle(ticket, "ticket"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    if (const auto code = require_answers(*ticket, Answers::kVerdicts); code != FARPAGE_OK) {
      return code;
    }
    fill(ticket->verdicts, *ticket->operation);
    *verdicts = ticket->verdicts.data();
    *count = ticket->verdicts.size();
    return FARPAGE_OK;
  });
}

farpage_code_t farpage_ticket_results(farpage_ticket_t* ticket,
                                      const farpage_put_result_t** results, size_t* count) {
  if (const auto code = c_api::require(results, "results"); code != FARPAGE_OK) return code;
  if (const auto code = c_api::require(count, "count"); code != FARPAGE_OK) return code;
  *results = nullptr;
  *count = 0;
  if (const auto code = c_api::require_handle(ticket, "ticket"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    if (const auto code = require_answers(*ticket, Answers::kResults); code != FARPAGE_OK) {
      return code;
    }
    const auto from = ticket->operation->results();
    ticket->results.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ticket->results[i].code = c_api::to_c(from[i].code);
      ticket->results[i].version = from[i].version;
    }
    *results = ticket->results.data();
    *count = ticket->results.size();
    return FARPAGE_OK;
  });
}

farpage_code_t farpage_ticket_removed(const farpage_ticket_t* ticket, uint64_t* removed) {
  if (const auto code = c_api::require(removed, "removed"); code != FARPAGE_OK) return code;
  *removed = 0;
  if (const auto code = c_api::require_handle(ticket, "ticket"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    if (const auto code = require_answers(*ticket, Answers::kRemoved); code != FARPAGE_OK) {
      return code;
    }
    const farpage::Result<uint64_t> answer = ticket->operation->removed();
    if (!answer) return c_api::refuse(answer.error());
    *removed = *answer;
    return FARPAGE_OK;
  });
}

const char* farpage_ticket_why(farpage_ticket_t* ticket) {
  if (c_api::require_handle(ticket, "ticket") != FARPAGE_OK || !ticket->operation->done())
    return "";
  c_api::guarded([&] {
    ticket->why = ticket->operation->why();
    return FARPAGE_OK;
  });
  return ticket->why.c_str();
}

void farpage_ticket_free(farpage_ticket_t* ticket) {
  if (ticket == nullptr || !ticket->owner.is_here()) return;
  std::unique_ptr<farpage_ticket> freed(ticket);
  const auto live = freed->live;
  c_api::guarded([&] {
    if (c_api::in_callback() && !freed->operation->released()) live->leave(std::move(freed));
    return FARPAGE_OK;
  });
}
