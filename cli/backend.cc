#include "cli/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/ucx_plugin.h"
#include "transport/shm/shm_fabric.h"
#include "transport/tcp/tcp_fabric.h"
#ifdef FARPAGE_HAS_VERBS
#include "transport/verbs/verbs_fabric.h"
#endif

namespace farpage {
namespace {

// Of any build.
constexpr auto kOptional = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"verbs", "FARPAGE_VERBS"},
    {"ucx", "FARPAGE_UCX"},
});

}  // namespace

Result<void> check_backend(const std::string& name) {
  if (std::find(kBackends.begin(), kBackends.end(), name) != kBackends.end()) return {};
  for (const auto& [optional, option] : kOptional) {
    if (optional == name) {
      return fail(Code::kInvalid, fmt::format("this farpage was built without the backend '{}': "
                                              "build it with -D{}=ON",
                                              name, option));
    }
  }
  return fail(Code::kInvalid,
              fmt::format("unknown backend '{}'; there are: {}", name, fmt::join(kBackends, ", ")));
}

Result<std::string> choose_backend(const std::string& asked, const Address& address) {
  const std::string natural = address.is_tcp() ? "tcp" : "shm";
  if (asked.empty()) return natural;
  if (auto known = check_backend(asked); !known) return tl::unexpected(known.error());
  // The others take either kind of address: only the control connection goes there.
  if (asked == natural || (asked != "shm" && asked != "tcp")) return asked;
  const char* advice = address.is_tcp() ? "needs the path of a Unix socket: give one, or choose "
                                          "--backend tcp"
                                        : "needs an address such as tcp://HOST:PORT: give one, or "
                                          "choose --backend shm";
  return fail(Code::kInvalid, fmt::format("{} does not go with the backend '{}', which {}",
                                          format_address(address), asked, advice));
}

Result<std::unique_ptr<Fabric>> make_client_fabric(const std::string& backend,
                                                   const BackendOptions& options,
                                                   const ClientCredentials& credentials) {
  if (backend == "shm") return shm::make_shm_fabric();
  if (backend == "tcp") return tcp::make_tcp_fabric({.credentials = credentials});
  return make_own_way_fabric(backend, options);
}

Result<std::unique_ptr<Fabric>> make_own_way_fabric(const std::string& backend,
                                                    const BackendOptions& options) {
  if (auto known = check_backend(backend); !known) return tl::unexpected(known.error());
#ifdef FARPAGE_HAS_VERBS
  if (backend == "verbs") {
    return verbs::make_verbs_fabric(
        {.devices = options.rdma.device_list(), .spin_us = options.rdma.spin_us});
  }
#endif
  if (backend == "ucx") return load_ucx_fabric(options.ucx);
  return fail(Code::kInvalid, fmt::format("'{}' has no way of its own", backend));
}

}  // namespace farpage
