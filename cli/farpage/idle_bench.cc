#include "cli/farpage/idle_bench.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "bench/idle_clients.h"
#include "cli/client/descriptors.h"
#include "cli/client/node_connection.h"
#include "cli/client/signals.h"
#include "report/json.h"
#include "report/progress.h"

namespace farpage {
namespace {

constexpr uint64_t kMostClients = 100'000;

void wait_for_the_end(const Interrupts& interrupts) {
  std::array<pollfd, 2> waits = {pollfd{STDIN_FILENO, POLLIN, 0},
                                 pollfd{interrupts.fd(), POLLIN, 0}};
  std::array<char, 4096> ignored = {};
  while (!interrupts.interrupted()) {
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents == 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, ignored.data(), ignored.size());
    if (count == 0 || (count < 0 && errno != EINTR)) return;
  }
}

}  // namespace

Result<void> IdleBenchOptions::validate() const {
  if (clients >= 1 && clients <= kMostClients) return {};
  return fail(Code::kInvalid, fmt::format("choose 1 to {} for clients", kMostClients));
}

Result<void> run_idle_bench(const IdleBenchOptions& options) {
  allow_many_descriptors();
  const Interrupts interrupts;
  auto connection = NodeConnection::reach(options.connect, interrupts);
  if (!connection) return tl::unexpected(connection.error());

  std::optional<Progress> progress;
  const auto opened = [&progress](uint64_t done, uint64_t total) {
    if (!progress) progress.emplace("connecting", "clients", total);
    progress->update(done);
  };
  const Result<IdleClients> clients = IdleClients::open(
      options.clients, [&] { return (*connection)->connect(options.connect.client); },
      [&] { return interrupts.interrupted(); }, opened);
  progress.reset();
  if (!clients) return tl::unexpected(clients.error());
  if (auto written = write_text("-", "ready\n"); !written) return written;
  wait_for_the_end(interrupts);
  if (clients->reachable() == clients->count()) return {};
  return fail(Code::kUnavailable,
              fmt::format("the node lost {} of {} clients: is it stopped, or are its cores busy?",
                          clients->count() - clients->reachable(), clients->count()));
}

}  // namespace farpage
