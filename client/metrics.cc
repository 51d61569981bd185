#include "client/metrics.h"

#include <fmt/format.h>

#include "net/address/address.h"

namespace farpage {
namespace {

auto name(const std::string& setting) {
  return [&setting](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", setting, error.message)};
  };
}

}  // namespace

Result<void> check_metrics(const std::string& listen, const std::string& setting) {
  if (listen.empty()) return {};
  return parse_host_port(listen).map([](const Address&) {}).map_error(name(setting));
}

Result<std::optional<ListeningSocket>> open_metrics(const std::string& listen,
                                                    const std::string& setting) {
  if (listen.empty()) return std::nullopt;
  auto socket = parse_host_port(listen).and_then(listen_on).map_error(name(setting));
  if (!socket) return tl::unexpected(socket.error());
  return std::move(*socket);
}

Result<std::unique_ptr<MetricsServer>> serve_metrics(std::optional<ListeningSocket> socket,
                                                     std::function<void(MetricVisitor&)> describe) {
  if (!socket) return nullptr;
  return MetricsServer::start(std::move(*socket), std::move(describe));
}

}  // namespace farpage
