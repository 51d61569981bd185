#include "transport/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace farpage::cuda {
namespace {

template <typename Entry>
bool find(void* library, const char* symbol, Entry& entry) {
  entry = reinterpret_cast<Entry>(::dlsym(library, symbol));
  return entry != nullptr;
}

}  // namespace

Result<Driver> load_driver(const char* library) {
  void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* const reason = ::dlerror();
    return fail(Code::kNotFound, std::string("no CUDA driver: ") +
                                     (reason != nullptr ? reason : library) +
                                     ": install NVIDIA's driver, or take memory of the host");
  }
  Driver driver;
#define FARPAGE_CUDA_ENTRY(member, symbol, ...)                                         \
  if (!find(loaded, #symbol, driver.member)) {                                          \
    ::dlclose(loaded);                                                                  \
    return fail(Code::kNotFound, std::string(library) +                                 \
                                     " has no " #symbol                                 \
                                     ": install NVIDIA's driver for CUDA 12 or later"); \
  }
#define FARPAGE_CUDA_OPTIONAL(member, symbol, ...) (void)find(loaded, #symbol, driver.member);
#include "transport/cuda/driver_entries.inc"
#undef FARPAGE_CUDA_ENTRY
  return driver;
}

bool ends_context(int result) {
  // The driver was taken down (4), the context was destroyed (709), an error is contained (226), a
  // kernel failed (the others).
  constexpr std::array kEnds = {4, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721};
  return std::ranges::find(kEnds, result) != kEnds.end();
}

std::string driver_error(const Driver& driver, int result, const std::string& what) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != kSuccess) name = nullptr;
  if (driver.error_text(result, &text) != kSuccess) text = nullptr;
  return what + ": " + (name != nullptr ? name : "error " + std::to_string(result)) +
         (text != nullptr ? std::string(": ") + text : "");
}

}  // namespace farpage::cuda
