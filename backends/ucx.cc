#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "backends/registration.h"
#include "backends/ucx_plugin.h"
#include "base/config/list_text.h"
#include "doctor/backends/backend_ucx.h"

namespace farpage {
namespace {

template <typename Ucx>
Result<void> read(Config& config, BackendOptions& options) {
  Ucx table;
  if (auto read = config.read("ucx", fields(table)); !read) return read;
  for (const auto& [setting, list] :
       {std::pair{"ucx.devices", &table.devices}, std::pair{"ucx.transports", &table.transports}}) {
    const auto entries = split_list(setting, *list, ListOf::kWords);
    if (!entries) return tl::unexpected(entries.error());
    *list = fmt::format("{}", fmt::join(*entries, ","));
  }
  options.ucx = std::move(table);
  return {};
}

BackendSettings settings_of_own_node(const BackendOptions& options) {
  const ucx::UcxOptions& ucx = options.ucx;
  return {{"ucx.transports", ucx.transports},
          {"ucx.devices", ucx.devices},
          {"ucx.allow_emulated", ucx.allow_emulated ? "true" : "false"},
          {"ucx.trusted_clients", "true"}};  // this program alone
}

#ifdef FARPAGE_HAS_UCX
Result<FabricOfBackend> make(const FabricOptions& options) {
  auto made = load_ucx_fabric(options.backends.ucx);
  if (!made) return tl::unexpected(made.error());
  return FabricOfBackend{std::move(*made)};
}
#endif

}  // namespace

const BackendRegistration kUcxBackend = {
    .host = &doctor::kUcxCheck,
    .cmake_option = "FARPAGE_UCX",
    .why_no_tenants =
        "ucx trusts every client with all of this process's memory, and so with "
        "every tenant's pages: leave [tenant.NAME] out, or take another backend",
    .table = BackendTable{read<NodeUcx>, read<ClientUcx>, settings_of_own_node},
    .tell_doctor = [](const BackendOptions&,
                      doctor::Wanted& wanted) { wanted.ucx_module = ucx_plugin_path(); },
#ifdef FARPAGE_HAS_UCX
    .make = make,
#endif
};

}  // namespace farpage
