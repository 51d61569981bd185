#include "doctor/host/gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "transport/cuda/gpu_context.h"
#include "transport/cuda/memory/landing_memory.h"
#include "transport/cuda/page_kernels.h"

namespace farpage::doctor {
namespace {

constexpr const char* kGpu = "gpu";
constexpr const char* kDriver = "/proc/driver/nvidia";
constexpr const char* kPciDevices = "/sys/bus/pci/devices";
constexpr std::string_view kNvidia = "0x10de";
constexpr std::string_view kDisplays = "0x03";  // VGA and 3D controllers

size_t count_cards(const HostFiles& files) {
  const auto names = files.names(kPciDevices);
  return static_cast<size_t>(std::ranges::count_if(names, [&files](const std::string& name) {
    const std::string folder = fmt::format("{}/{}", kPciDevices, name);
    return files.text(folder + "/vendor") == kNvidia &&
           files.text(folder + "/class").value_or("").starts_with(kDisplays);
  }));
}

// "NVRM version: NVIDIA UNIX … Kernel Module  550.54.15  Tue …" → "550.54.15"
std::string driver_version(const HostFiles& files) {
  const std::string version = std::string(kDriver) + "/version";
  std::istringstream words(files.value(version, "NVRM version").value_or(""));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos) {
      return word;
    }
  }
  return files.exists(version) ? "of unknown version" : "";
}

bool is_gpu_file(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

void read_library(const char* library, GpuFacts& facts) {
  const auto driver = cuda::start_driver(library);
  if (!driver) {
    facts.library_error = driver.error().message;
    return;
  }
  int count = 0;
  if (const int result = driver->device_count(&count); result != cuda::kSuccess) {
    facts.library_error = driver_error(*driver, result, "cuDeviceGetCount");
  }
  for (int device = 0; device < count; ++device) {
    std::array<char, 128> name = {};
    const int result = driver->device_name(name.data(), static_cast<int>(name.size()) - 1, device);
    facts.devices.emplace_back(result == cuda::kSuccess ? name.data() : "of unknown name");
    int is_able = 0;
    driver->device_attribute(&is_able, cuda::kReadOnlyRegistration, device);
    facts.read_nodes += is_able != 0 ? 1 : 0;
    if (!cuda::write_flush(*driver, device)) continue;
    ++facts.reached;
    int has_dma_bufs = 0;
    driver->device_attribute(&has_dma_bufs, cuda::kDmaBufs, device);
    facts.with_dma_bufs += has_dma_bufs != 0 ? 1 : 0;
  }
}

// Network cards that are there could write to the GPUs, if they were told where.
bool lacks_peer_memory(const GpuFacts& facts) {
  return facts.rdma_devices > 0 && facts.has_kernels && facts.reached > facts.with_dma_bufs &&
         !facts.has_peer_memory;
}

std::string landing(const GpuFacts& facts) {
  const std::string by_host =
      "pages land in pinned host memory (gpu.bounce_bytes for each GPU) and are copied from there";
  if (facts.rdma_devices == 0) return by_host + ", as this host has no RDMA device; ";
  if (facts.reached == 0) return by_host + ", as no network card reaches these GPUs; ";
  if (!facts.has_kernels) return by_host + ", as nothing else would check them; ";
  if (lacks_peer_memory(facts)) {
    return by_host +
           ", as CUDA's driver cannot export the memory of every GPU as a dma-buf, and "
           "nvidia-peermem is not loaded; ";
  }
  return fmt::format(
      "over RDMA (verbs), network cards write pages to the GPUs' memory, by {}, where "
      "their drivers take it (gpu.landing); over other backends, {}; ",
      facts.with_dma_bufs == facts.reached ? "dma-buf" : "nvidia-peermem", by_host);
}

}  // namespace

GpuFacts read_gpus(const HostFiles& files, const char* library) {
  GpuFacts facts;
  facts.cards = count_cards(files);
  facts.gpus = files.names(std::string(kDriver) + "/gpus").size();
  for (const std::string& name : files.names("/dev")) {
    facts.device_files += is_gpu_file(name) ? 1 : 0;
  }
  facts.kernel_driver = driver_version(files);
  facts.has_kernels = cuda::has_page_kernels();
  facts.rdma_devices = files.names("/sys/class/infiniband").size();
  facts.has_peer_memory = files.exists("/sys/module/nvidia_peermem");
  read_library(library, facts);
  return facts;
}

Finding check_gpu_driver(const GpuFacts& facts, const Privileges& privileges) {
  Finding finding = {kGpu, "driver"};
  if (facts.library_error.empty() && !facts.devices.empty()) {
    finding.text = fmt::format("CUDA's driver works: {}", fmt::join(facts.devices, ", "));
    return finding;
  }
  if (facts.cards == 0 && facts.kernel_driver.empty()) {
    finding.text = "no GPU of NVIDIA's: pages are fetched into host memory";
    return finding;
  }
  finding.level = Level::kWarning;
  if (facts.kernel_driver.empty()) {
    finding.text = fmt::format("GPUs of NVIDIA's: {}; its driver is not loaded", facts.cards);
    finding.command = privileges.as_root("apt-get install nvidia-driver");
    return finding;
  }
  finding.text = fmt::format("NVIDIA's driver {}; GPUs: {}", facts.kernel_driver, facts.gpus);
  if (facts.gpus == 0) {
    finding.command = "nvidia-smi";
  } else if (facts.device_files == 0) {
    finding.text += ", but no /dev/nvidia0";
    finding.command = privileges.as_root("nvidia-modprobe -c 0 -u");
  } else if (facts.library_error.empty()) {
    finding.text += ", and CUDA gives this process none: CUDA_VISIBLE_DEVICES may hide them";
    finding.command = "env -u CUDA_VISIBLE_DEVICES farpage doctor";
  } else {
    finding.text +=
        "; a container is given the library with `--gpus all` and "
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility; " +
        facts.library_error;
    finding.command = "nvidia-smi";
  }
  return finding;
}

Finding check_gpu_path(const GpuFacts& facts, const Privileges& privileges) {
  Finding finding = {kGpu, "path"};
  const bool has_gpus = facts.library_error.empty() && !facts.devices.empty();
  if (!has_gpus) {
    finding.text = "none: this process can use no GPU";
    return finding;
  }
  finding.text = landing(facts);
  if (lacks_peer_memory(facts)) {
    finding.level = Level::kNote;
    finding.command = privileges.as_root("modprobe nvidia-peermem");
  }
  finding.text += facts.read_nodes > 0
                      ? "long ones of a node on this host straight from its shared memory "
                        "(gpu.straight_bytes)"
                      : "those of a node on this host too: no GPU here registers memory that is "
                        "mapped for reading alone";
  finding.text +=
      facts.has_kernels
          ? "; this build has the kernels by which a GPU checks pages where they have come "
            "(gpu.check_copies)"
          : "; no GPU checks what was copied to it, as this farpage was built without "
            "kernels (-DFARPAGE_CUDA=on)";
  return finding;
}

}  // namespace farpage::doctor
