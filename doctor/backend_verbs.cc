#include "doctor/backend_verbs.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/kernel_config.h"

namespace farpage::doctor {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kInterfaces = "/sys/class/net";

std::vector<RdmaPort> read_ports(const HostFiles& files, const std::string& device) {
  std::vector<RdmaPort> ports;
  const std::string folder = fmt::format("{}/{}/ports", kDevices, device);
  for (const std::string& number : files.names(folder)) {
    const std::string port = fmt::format("{}/{}", folder, number);
    const std::string text = files.text(port + "/state").value_or("");  // "4: ACTIVE"
    const size_t space = text.find(' ');
    const bool is_ethernet = files.text(port + "/link_layer").value_or("") == "Ethernet";
    ports.push_back({fmt::format("{}/{}", device, number),
                     space == std::string::npos ? text : text.substr(space + 1),
                     is_ethernet ? files.text(port + "/gid_attrs/ndevs/0").value_or("eth0") : ""});
  }
  return ports;
}

bool has_soft_rdma(const HostFiles& files) {
  const std::string modules =
      "/lib/modules/" + files.text("/proc/sys/kernel/osrelease").value_or("");
  return files.exists("/sys/module/rdma_rxe") ||
         files.text(modules + "/modules.dep").value_or("").find("/rdma_rxe.ko") !=
             std::string::npos ||
         KernelConfig::read(files).has("CONFIG_RDMA_RXE").value_or(false);
}

std::string first_interface(const HostFiles& files) {
  for (const std::string& name : files.names(kInterfaces)) {
    const std::string state =
        files.text(fmt::format("{}/{}/operstate", kInterfaces, name)).value_or("");
    if (name != "lo" && state == "up") return name;
  }
  return "lo";
}

std::string list(const VerbsFacts& facts) {
  std::string text;
  for (const RdmaPort& port : facts.ports) {
    text += fmt::format("{}{} is {}", text.empty() ? "" : ", ", port.name, port.state);
  }
  return text.empty() ? "no port" : text;
}

HostSide without_device(const VerbsFacts& facts, const Privileges& privileges) {
  if (facts.has_soft_rdma) {
    return {Level::kProblem, "no RDMA device; the kernel can make one in software (rdma_rxe)",
            privileges.as_root(fmt::format("modprobe rdma_rxe && rdma link add rxe0 type rxe "
                                           "netdev {}",
                                           shell_word(facts.interface)))};
  }
  return {Level::kProblem,
          "no RDMA device, and this kernel has no rdma_rxe to make one in software; Debian's has",
          privileges.as_root("apt-get install linux-image-amd64")};
}

HostSide look(const VerbsFacts& facts, const Privileges& privileges) {
  if (facts.devices.empty()) return without_device(facts, privileges);
  const auto active = std::find_if(facts.ports.begin(), facts.ports.end(),
                                   [](const RdmaPort& port) { return port.state == "ACTIVE"; });
  if (facts.user_devices == 0) {
    return {Level::kProblem, list(facts) + "; no /dev/infiniband/uverbs*, so no program can use it",
            privileges.as_root("modprobe ib_uverbs")};
  }
  if (active != facts.ports.end()) return {Level::kOk, list(facts), ""};
  const std::string text = list(facts) + "; none is active";
  if (facts.ports.empty()) return {Level::kProblem, text, "rdma link show"};
  const RdmaPort& port = facts.ports.front();
  if (!port.interface.empty()) {
    return {Level::kProblem, text,
            privileges.as_root("ip link set " + shell_word(port.interface) + " up")};
  }
  if (port.state == "INIT") {
    return {Level::kProblem, text + ": it waits for a subnet manager",
            privileges.as_root("apt-get install opensm && systemctl start opensm")};
  }
  return {Level::kProblem, text + ": is its cable plugged in?", "rdma link show " + port.name};
}

}  // namespace

VerbsFacts read_verbs(const HostFiles& files) {
  VerbsFacts facts;
  facts.devices = files.names(kDevices);
  for (const std::string& device : facts.devices) {
    for (RdmaPort& port : read_ports(files, device)) facts.ports.push_back(std::move(port));
  }
  for (const std::string& name : files.names("/dev/infiniband")) {
    facts.user_devices += name.starts_with("uverbs") ? 1 : 0;
  }
  facts.has_soft_rdma = has_soft_rdma(files);
  facts.interface = first_interface(files);
  return facts;
}

Finding check_verbs(const VerbsFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  return backend_finding(kVerbs, look(facts, privileges), wanted);
}

}  // namespace farpage::doctor
