#include "cli/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "transport/shm/shm_fabric.h"
#include "transport/tcp/tcp_fabric.h"

namespace farpage {

Result<void> check_backend(const std::string& name) {
  if (std::find(kBackends.begin(), kBackends.end(), name) != kBackends.end()) return {};
  return fail(Code::kInvalid,
              fmt::format("unknown backend '{}'; there are: {}", name, fmt::join(kBackends, ", ")));
}

Result<std::string> choose_backend(const std::string& asked, const Address& address) {
  const std::string natural = address.is_tcp() ? "tcp" : "shm";
  if (asked.empty()) return natural;
  if (auto known = check_backend(asked); !known) return tl::unexpected(known.error());
  if (asked == natural) return asked;
  const char* advice = address.is_tcp() ? "needs the path of a Unix socket: give one, or choose "
                                          "--backend tcp"
                                        : "needs an address such as tcp://HOST:PORT: give one, or "
                                          "choose --backend shm";
  return fail(Code::kInvalid, fmt::format("{} does not go with the backend '{}', which {}",
                                          format_address(address), asked, advice));
}

Result<std::unique_ptr<Fabric>> make_client_fabric(const std::string& backend,
                                                   const ClientCredentials& credentials) {
  if (auto known = check_backend(backend); !known) return tl::unexpected(known.error());
  if (backend == "shm") return shm::make_shm_fabric();
  return tcp::make_tcp_fabric({.credentials = credentials});
}

}  // namespace farpage
