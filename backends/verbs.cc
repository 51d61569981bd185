#include <fmt/format.h>

#include "backends/registration.h"
#include "base/config/list_text.h"
#include "doctor/backends/backend_verbs.h"
#ifdef FARPAGE_HAS_VERBS
#include "transport/verbs/verbs_fabric.h"
#endif

namespace farpage {
namespace {

constexpr uint64_t kMaxSpinUs = 1'000'000;

Result<void> read(Config& config, BackendOptions& options) {
  RdmaOptions& rdma = options.rdma;
  if (auto read = config.read("rdma", fields(rdma)); !read) return read;
  const auto devices = split_list("rdma.devices", rdma.devices, ListOf::kWords);
  if (!devices) return tl::unexpected(devices.error());
  if (rdma.spin_us <= kMaxSpinUs) return {};
  return fail(Code::kInvalid,
              fmt::format("rdma.spin_us is {}: choose 0 to {}", rdma.spin_us, kMaxSpinUs));
}

BackendSettings settings_of_own_node(const BackendOptions& options) {
  return {{"rdma.devices", options.rdma.devices}};
}

#ifdef FARPAGE_HAS_VERBS
Result<FabricOfBackend> make(const FabricOptions& options) {
  const RdmaOptions& rdma = options.backends.rdma;
  auto made = verbs::make_verbs_fabric({.devices = rdma.device_list(), .spin_us = rdma.spin_us});
  if (!made) return tl::unexpected(made.error());
  return FabricOfBackend{std::move(*made)};
}
#endif

}  // namespace

const BackendRegistration kVerbsBackend = {
    .host = &doctor::kVerbsCheck,
    .cmake_option = "FARPAGE_VERBS",
    .table = BackendTable{read, read, settings_of_own_node},
    .tell_doctor = [](const BackendOptions& options,
                      doctor::Wanted& wanted) { wanted.rdma_devices = options.rdma.device_list(); },
#ifdef FARPAGE_HAS_VERBS
    .make = make,
#endif
};

}  // namespace farpage
