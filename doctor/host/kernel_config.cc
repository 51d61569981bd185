#include "doctor/host/kernel_config.h"

#include <isa-l/igzip_lib.h>

#include <array>

namespace farpage::doctor {
namespace {

// Empty if it is no whole gzip.
std::string unzip(std::string& packed) {
  std::string text;
  std::array<uint8_t, 65'536> part;
  inflate_state state;
  ::isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  state.next_in = reinterpret_cast<uint8_t*>(packed.data());
  state.avail_in = static_cast<uint32_t>(packed.size());
  do {
    state.next_out = part.data();
    state.avail_out = part.size();
    if (::isal_inflate(&state) != ISAL_DECOMP_OK) return "";
    text.append(reinterpret_cast<const char*>(part.data()), part.size() - state.avail_out);
  } while (state.block_state != ISAL_BLOCK_FINISH && state.avail_out == 0);
  return state.block_state == ISAL_BLOCK_FINISH ? text : "";
}

}  // namespace

KernelConfig KernelConfig::read(const HostFiles& files) {
  KernelConfig config;
  if (auto packed = files.text("/proc/config.gz")) config.text_ = unzip(*packed);
  if (!config.text_.empty()) return config;
  const std::string release = files.text("/proc/sys/kernel/osrelease").value_or("");
  config.text_ = files.text("/boot/config-" + release).value_or("");
  return config;
}

std::optional<bool> KernelConfig::has(const std::string& option) const {
  if (text_.empty()) return std::nullopt;
  const std::string text = "\n" + text_ + "\n";
  return text.find("\n" + option + "=y\n") != std::string::npos ||
         text.find("\n" + option + "=m\n") != std::string::npos;
}

}  // namespace farpage::doctor
