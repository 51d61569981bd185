#include "bench/idle_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage {
namespace {

tl::unexpected<Error> refused(uint64_t number, uint64_t count, const Error& error) {
  return fail(error.code, fmt::format("client {} of {}: {}", number, count, error.message));
}

}  // namespace

Result<IdleClients> IdleClients::open(
    uint64_t count, const std::function<Result<std::unique_ptr<Client>>()>& connect,
    const std::function<bool()>& interrupted,
    const std::function<void(uint64_t, uint64_t)>& opened) {
  IdleClients idle;
  idle.clients_.reserve(count);
  while (idle.count() < count) {
    if (interrupted()) return fail(Code::kAborted, "interrupted");
    auto client = connect();
    if (!client) return refused(idle.count() + 1, count, client.error());
    Result<Lane> lane = (*client)->open_lane();
    if (!lane) return refused(idle.count() + 1, count, lane.error());
    idle.clients_.push_back({std::move(*client), std::move(*lane)});
    opened(idle.count(), count);
  }
  return idle;
}

uint64_t IdleClients::reachable() const {
  return static_cast<uint64_t>(
      std::ranges::count_if(clients_, [](const Idle& idle) { return idle.client->reachable(); }));
}

}  // namespace farpage
