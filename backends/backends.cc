#include "backends/backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace farpage {
namespace {

constexpr std::array<const BackendRegistration*, 4> kBackends = {&kShmBackend, &kTcpBackend,
                                                                 &kVerbsBackend, &kUcxBackend};

}  // namespace

std::span<const BackendRegistration* const> every_backend() {
  return kBackends;
}

std::string built_backends() {
  std::string names;
  for (const BackendRegistration* backend : kBackends) {
    if (!backend->is_built()) continue;
    if (!names.empty()) names += ", ";
    names += backend->name();
  }
  return names;
}

Result<const BackendRegistration*> find_backend(std::string_view name) {
  const auto found = std::ranges::find(kBackends, name, &BackendRegistration::name);
  if (found == kBackends.end()) {
    return fail(Code::kInvalid,
                fmt::format("unknown backend '{}'; there are: {}", name, built_backends()));
  }
  if ((*found)->is_built()) return *found;
  return fail(Code::kInvalid, fmt::format("this farpage was built without the backend '{}': "
                                          "build it with -D{}=ON",
                                          name, (*found)->cmake_option));
}

const BackendRegistration& natural_backend(NodesAt nodes_at) {
  return **std::ranges::find(kBackends, nodes_at, &BackendRegistration::nodes_at);
}

Result<const BackendRegistration*> choose_backend(const std::string& asked,
                                                  const Address& address) {
  const NodesAt given = address.is_tcp() ? NodesAt::kTcpPort : NodesAt::kUnixSocket;
  const BackendRegistration& natural = natural_backend(given);
  if (asked.empty()) return &natural;
  auto backend = find_backend(asked);
  if (!backend) return backend;
  const NodesAt needed = (*backend)->nodes_at;
  if (needed == given || needed == NodesAt::kAnyAddress) return backend;
  return fail(Code::kInvalid,
              fmt::format("{} does not go with the backend '{}', which needs {}: give one, or "
                          "choose --backend {}",
                          format_address(address), asked,
                          needed == NodesAt::kUnixSocket ? "the path of a Unix socket"
                                                         : "an address such as tcp://HOST:PORT",
                          natural.name()));
}

}  // namespace farpage
