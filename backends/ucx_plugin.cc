#include "backends/ucx_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <filesystem>
#include <system_error>

#include "transport/ucx/plugin.h"

namespace farpage {
namespace {

std::string module_path() {
  constexpr const char* kModule = "farpage/libfarpage_ucx.so";
  std::error_code ignored;
  Dl_info symbol = {};
  link_map* object = nullptr;
  const auto here = reinterpret_cast<const void*>(&ucx_plugin_path);
  const bool is_found =
      ::dladdr1(here, &symbol, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) != 0;
  if (is_found && object->l_name[0] != '\0') {
    return std::filesystem::canonical(object->l_name, ignored).parent_path() / kModule;
  }
  // Part of the program itself, which has no name there.
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "lib" / kModule;
}

// As the library is loaded: it may be named by a path from the folder that the process is in then.
const std::string kModulePath = module_path();

Result<ucx::PluginEntry*> load_entry(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return fail(Code::kUnavailable,
                fmt::format("the backend 'ucx' is in a file of its own, {}, which is not there: it "
                            "is built with -DFARPAGE_UCX=ON (target farpage_ucx), and `cmake "
                            "--install` puts it beside the program",
                            path));
  }
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return fail(Code::kUnavailable,
                fmt::format("the backend 'ucx' cannot be loaded ({}): it needs UCX's libraries "
                            "(Debian's libucx0), and must be of the same build as this program",
                            ::dlerror()));
  }
  void* entry = ::dlsym(module, ucx::kPluginEntry);
  if (entry == nullptr) {
    return fail(Code::kUnavailable,
                fmt::format("{} is of another version than this farpage, which needs its {}: "
                            "install both from one build",
                            path, ucx::kPluginEntry));
  }
  return reinterpret_cast<ucx::PluginEntry*>(entry);
}

}  // namespace

std::string ucx_plugin_path() {
  return kModulePath;
}

Result<std::unique_ptr<Fabric>> load_ucx_fabric(const ucx::UcxOptions& options) {
  const auto entry = load_entry(ucx_plugin_path());
  if (!entry) return tl::unexpected(entry.error());
  Result<std::unique_ptr<Fabric>> made = nullptr;
  (*entry)(options, made);
  return made;
}

}  // namespace farpage
