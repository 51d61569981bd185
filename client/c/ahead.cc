#include "client/c/batch.h"
#include "client/c/client.h"
#include "client/c/errors.h"

namespace c_api = farpage::c_api;
using farpage::Farpage;

namespace {

// `items` are keys or accesses, and `tell` tells the client of them.
template <typename Tell>
farpage_code_t tell_of(farpage_t* client, const void* items, const char* name, size_t count,
                       Tell&& tell) {
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  if (const auto code = c_api::require_items(items, name, count); code != FARPAGE_OK) return code;
  return c_api::guarded([&] { return c_api::answer(tell(*client->tier)); });
}

}  // namespace

farpage_code_t farpage_announce(farpage_t* client, const farpage_key_t* keys, size_t count,
                                uint64_t wanted_in_us) {
  return tell_of(client, keys, "keys", count, [&](Farpage& tier) {
    return tier.announce(c_api::read_keys(keys, count), wanted_in_us);
  });
}

farpage_code_t farpage_withdraw(farpage_t* client, const farpage_key_t* keys, size_t count) {
  return tell_of(client, keys, "keys", count,
                 [&](Farpage& tier) { return tier.withdraw(c_api::read_keys(keys, count)); });
}

farpage_code_t farpage_mark_milestones(farpage_t* client, const farpage_key_t* keys, size_t count) {
  return tell_of(client, keys, "keys", count, [&](Farpage& tier) {
    return tier.mark_milestones(c_api::read_keys(keys, count));
  });
}

farpage_code_t farpage_observe(farpage_t* client, const farpage_access_t* accesses, size_t count) {
  return tell_of(client, accesses, "accesses", count, [&](Farpage& tier) {
    return c_api::read_accesses(accesses, count).and_then([&](const auto& read) {
      return tier.observe(read);
    });
  });
}

farpage_code_t farpage_statistics(farpage_t* client, farpage_statistics_t* statistics) {
  if (const auto code = c_api::require(statistics, "statistics"); code != FARPAGE_OK) return code;
  if (const auto code = c_api::require_handle(client, "client"); code != FARPAGE_OK) return code;
  return c_api::guarded([&] {
    return c_api::answer(c_api::write_statistics(client->tier->statistics(), *statistics));
  });
}
