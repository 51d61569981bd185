#include <memory>
#include <utility>

#include "client/c/batch.h"
#include "client/c/client.h"
#include "client/c/completions.h"
#include "client/c/errors.h"
#include "client/c/fence.h"

namespace c_api = farpage::c_api;
using c_api::Answers;

namespace {

// What every operation takes beside its pages.
struct Call {
  farpage_t* client;
  const void* pages;  // or keys
  const char* pages_name;
  size_t count;
  const farpage_notification_t* notification;
  farpage_ticket_t** ticket;
};

farpage_code_t require_pages(const Call& call) {
  if (const auto code = c_api::require_handle(call.client, "client"); code != FARPAGE_OK) {
    return code;
  }
  return c_api::require_items(call.pages, call.pages_name, call.count);
}

// Where the end is told, kept in the ticket.
farpage::Result<farpage::Notification> notify(const Call& call, farpage_ticket& ticket) {
  const auto read = c_api::read_notification(call.notification);
  if (!read) return tl::unexpected(read.error());
  farpage::Notification told;
  if (read->completions != nullptr) {
    if (!read->completions->owner.is_here()) {
      return farpage::fail(farpage::Code::kInvalid,
                           "notification: its completions are of the process that this one was "
                           "forked from: make others here");
    }
    ticket.completions = read->completions->queue;
    told.completions = ticket.completions.get();
    told.tag = read->tag;
  }
  if (read->callback != nullptr) {
    ticket.callback = {read->callback, read->context};
    told.callback = c_api::Callback::enter;
    told.context = &ticket.callback;
  }
  if (read->fence != nullptr) {
    if (!read->fence->owner.is_here()) {
      return farpage::fail(farpage::Code::kInvalid,
                           "notification: its fence is of the process that this one was forked "
                           "from: make another here");
    }
    if (read->fence->client.lock() != call.client->tickets) {
      return farpage::fail(
          farpage::Code::kInvalid,
          "notification: its fence is another client's: make one with this client");
    }
    ticket.fence = read->fence->shared;
    told.fence = &ticket.fence->fence();
  }
  return told;
}

// `begin` submits: (regions, ticket, notification) -> Result<Ticket>.
template <typename Begin>
farpage_code_t submit(const Call& call, Answers answers, Begin&& begin) {
  if (const auto code = c_api::require(call.ticket, "ticket"); code != FARPAGE_OK) return code;
  *call.ticket = nullptr;
  if (const auto code = require_pages(call); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    call.client->tickets->free_left();
    // Also while a ticket that comes to nothing leaves the others.
    c_api::Regions::Reader regions(call.client->regions);
    auto ticket = std::make_unique<farpage_ticket>(answers);
    const auto told = notify(call, *ticket);
    if (!told) return c_api::refuse(told.error());
    call.client->tickets->add(*ticket);
    ticket->live = call.client->tickets;
    auto begun = begin(regions, *ticket, *told);
    if (!begun) return c_api::refuse(begun.error());
    ticket->operation = std::make_shared<farpage::Ticket>(std::move(*begun));
    *call.ticket = ticket.release();
    return FARPAGE_OK;
  });
}

// `begin` puts: (requests, notification) -> Result<Ticket>.
template <typename Begin>
farpage_code_t put(const Call& call, Begin&& begin) {
  return submit(call, Answers::kResults, [&](auto& regions, auto& made, const auto& told) {
    const auto* const pages = static_cast<const farpage_page_t*>(call.pages);
    return c_api::read_put(pages, call.count, regions).and_then([&](auto&& batch) {
      made.regions = std::move(batch.regions);
      return begin(batch.requests, told);
    });
  });
}

// Of a fetch that was refused before its fence heard of it: what waits there finds no page ready.
void clear_fence(const farpage_notification_t* notification) noexcept {
  c_api::guarded([&] {
    const auto read = c_api::read_notification(notification);
    if (read && read->fence != nullptr && read->fence->owner.is_here()) {
      read->fence->shared->fence().clear();
    }
    return FARPAGE_OK;
  });
}

}  // namespace

farpage_code_t farpage_fetch(farpage_t* client, const farpage_page_t* pages, size_t count,
                             uint64_t timeout_us, const farpage_notification_t* notification,
                             farpage_ticket_t** ticket) {
  const Call call = {client, pages, "pages", count, notification, ticket};
  bool is_begun = false;
  const auto begin = [&](auto& regions, auto& made, const auto& told) {
    return c_api::read_fetch(pages, count, regions).and_then([&](auto&& batch) {
      made.regions = std::move(batch.regions);
      is_begun = true;
      return client->tier->fetch(batch.requests, timeout_us, {}, told);
    });
  };
  const farpage_code_t code = submit(call, Answers::kVerdicts, begin);
  if (code != FARPAGE_OK && !is_begun) clear_fence(notification);
  return code;
}

farpage_code_t farpage_put(farpage_t* client, const farpage_page_t* pages, size_t count,
                           uint64_t timeout_us, const farpage_notification_t* notification,
                           farpage_ticket_t** ticket) {
  const Call call = {client, pages, "pages", count, notification, ticket};
  return put(call, [&](const auto& requests, const auto& told) {
    return client->tier->put(requests, timeout_us, told);
  });
}

farpage_code_t farpage_put_behind(farpage_t* client, const farpage_page_t* pages, size_t count,
                                  uint64_t timeout_us, void* stream,
                                  const farpage_notification_t* notification,
                                  farpage_ticket_t** ticket) {
  const Call call = {client, pages, "pages", count, notification, ticket};
  return put(call, [&](const auto& requests, const auto& told) {
    return client->tier->put_behind(static_cast<farpage::cuda::Stream>(stream), requests,
                                    timeout_us, told);
  });
}

farpage_code_t farpage_remove(farpage_t* client, const farpage_key_t* keys, size_t count,
                              uint64_t timeout_us, const farpage_notification_t* notification,
                              farpage_ticket_t** ticket) {
  const Call call = {client, keys, "keys", count, notification, ticket};
  return submit(call, Answers::kRemoved, [&](auto&, auto&, const auto& told) {
    return client->tier->remove(c_api::read_keys(keys, count), timeout_us, told);
  });
}

farpage_code_t farpage_exists(farpage_t* client, const farpage_key_t* keys, size_t count,
                              uint64_t timeout_us, const farpage_notification_t* notification,
                              farpage_ticket_t** ticket) {
  const Call call = {client, keys, "keys", count, notification, ticket};
  return submit(call, Answers::kVerdicts, [&](auto&, auto&, const auto& told) {
    return client->tier->exists(c_api::read_keys(keys, count), timeout_us, told);
  });
}

farpage_code_t farpage_leading(farpage_t* client, const farpage_key_t* keys, size_t count,
                               uint64_t timeout_us, uint64_t* leading) {
  if (const auto code = c_api::require(leading, "leading"); code != FARPAGE_OK) return code;
  *leading = 0;
  const Call call = {client, keys, "keys", count, nullptr, nullptr};
  if (const auto code = require_pages(call); code != FARPAGE_OK) return code;
  if (c_api::in_callback()) {
    return c_api::refuse(FARPAGE_BUSY, "a callback must not wait: use farpage_exists()");
  }
  return c_api::guarded([&] {
    const auto counted = client->tier->leading(c_api::read_keys(keys, count), timeout_us);
    if (!counted) return c_api::refuse(counted.error());
    *leading = *counted;
    return FARPAGE_OK;
  });
}

farpage_code_t farpage_flush(farpage_t* client, uint64_t timeout_us) {
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  if (c_api::in_callback()) {
    return c_api::refuse(FARPAGE_BUSY, "a callback must not wait: flush on another thread");
  }
  return c_api::guarded([&] { return c_api::answer(client->tier->flush(timeout_us)); });
}
