#include "doctor/backends/backend_cuda.h"

#include <fmt/format.h>

#include <sstream>

#include "doctor/backends/backend_tcp.h"
#include "doctor/host/kernel_config.h"

namespace farpage::doctor {
namespace {

constexpr const char* kDriver = "/proc/driver/nvidia";

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

HostSide look(const CudaFacts& facts, const Privileges& privileges) {
  if (facts.driver.empty()) {
    return {Level::kProblem, "NVIDIA's driver is not loaded",
            privileges.as_root("apt-get install nvidia-driver")};
  }
  std::string text = fmt::format("driver {}, {} GPUs", facts.driver, facts.gpus);
  if (facts.gpus == 0) return {Level::kProblem, text, "nvidia-smi"};
  if (facts.device_files == 0) {
    return {Level::kProblem, text + ", but no /dev/nvidia0",
            privileges.as_root("nvidia-modprobe -c 0 -u")};
  }
  if (facts.has_peer_memory) return {Level::kOk, text + ", nvidia_peermem is loaded", ""};
  if (facts.has_dma_buf.value_or(false)) {
    return {Level::kOk, text + ", the kernel supports RDMA by dma-buf", ""};
  }
  text += facts.has_dma_buf ? ", no nvidia_peermem, and no dma-buf for RDMA in the kernel"
                            : ", no nvidia_peermem, and the kernel's configuration is not readable";
  return {Level::kWarning, text, privileges.as_root("modprobe nvidia_peermem")};
}

}  // namespace

CudaFacts read_cuda(const HostFiles& files) {
  CudaFacts facts;
  facts.gpus = files.names(std::string(kDriver) + "/gpus").size();
  for (const std::string& name : files.names("/dev")) {
    facts.device_files += is_gpu_file(name) ? 1 : 0;
  }
  facts.driver = driver_version(files);
  facts.has_peer_memory = files.exists("/sys/module/nvidia_peermem");
  const KernelConfig config = KernelConfig::read(files);
  if (const auto buffers = config.has("CONFIG_DMA_SHARED_BUFFER")) {
    facts.has_dma_buf = *buffers && config.has("CONFIG_PCI_P2PDMA").value_or(false);
  }
  return facts;
}

Finding check_cuda(const CudaFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  return backend_finding(kCudaCheck, look(facts, privileges), wanted);
}

const BackendCheck kCudaCheck = {
    .name = "cuda",
    .locks_memory = true,
    .descriptors_of_client = descriptors_over_tcp,  // which was not measured
    .examine =
        [](const Wanted& wanted, const HostFiles& files, const Privileges& privileges) {
          return check_cuda(read_cuda(files), wanted, privileges);
        },
};

}  // namespace farpage::doctor
