#include "doctor/backends/backend_verbs.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "doctor/host/kernel_config.h"

namespace farpage::doctor {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kInterfaces = "/sys/class/net";
constexpr uint64_t kJumboMtu = 4200;  // room for 4096 bytes and the headers of RoCE
constexpr size_t kMaxDevices = 8;     // that transport/verbs takes
// Control, and what wakes who waits for staging; and a completion channel on each device for
// staging, and for the reads of each of two lanes.
constexpr uint64_t kDescriptorsOfVerbsClient = 2;
constexpr uint64_t kDescriptorsOfClientAndDevice = 3;

std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  ::inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

// "0000:0000:0000:0000:0000:ffff:0a09:0001" → "10.9.0.1"; empty for one that is no address of a
// host, or of a link alone.
std::string address_in(const std::string& gid) {
  in6_addr raw = {};
  if (::inet_pton(AF_INET6, gid.c_str(), &raw) != 1) return "";
  if (IN6_IS_ADDR_UNSPECIFIED(&raw) || IN6_IS_ADDR_LINKLOCAL(&raw)) return "";
  return IN6_IS_ADDR_V4MAPPED(&raw) ? text_of(AF_INET, &raw.s6_addr[12]) : text_of(AF_INET6, &raw);
}

// As transport/verbs chooses: RoCE v2, IPv4 before IPv6.
void read_gids(const HostFiles& files, const std::string& folder, RdmaPort& port) {
  const auto entry = [&](const char* table, const std::string& index) {
    return files.text(fmt::format("{}/{}/{}", folder, table, index)).value_or("");
  };
  for (const std::string& index : files.names(folder + "/gids")) {
    if (entry("gid_attrs/types", index) != "RoCE v2") continue;
    const std::string address = address_in(entry("gids", index));
    const bool better = port.address.empty() || (port.address.find(':') != std::string::npos &&
                                                 address.find('.') != std::string::npos);
    if (!address.empty()) port.addresses.push_back(address);
    if (address.empty() || !better) continue;
    port.address = address;
    port.gid_index = std::stoull(index);
  }
}

std::vector<RdmaPort> read_ports(const HostFiles& files, const std::string& device) {
  std::vector<RdmaPort> ports;
  const std::string folder = fmt::format("{}/{}/ports", kDevices, device);
  for (const std::string& number : files.names(folder)) {
    const std::string port = fmt::format("{}/{}", folder, number);
    const std::string text = files.text(port + "/state").value_or("");  // "4: ACTIVE"
    const size_t space = text.find(' ');
    const bool is_ethernet = files.text(port + "/link_layer").value_or("") == "Ethernet";
    RdmaPort& found = ports.emplace_back();
    found.device = device;
    found.number = number;
    found.state = space == std::string::npos ? text : text.substr(space + 1);
    if (!is_ethernet) continue;
    found.interface = files.text(port + "/gid_attrs/ndevs/0").value_or("eth0");
    found.mtu = files.number(fmt::format("{}/{}/mtu", kInterfaces, found.interface)).value_or(0);
    read_gids(files, port, found);
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
    text += fmt::format("{}{} is {}", text.empty() ? "" : ", ", port.name(), port.state);
    if (!port.address.empty()) {
      text += fmt::format(" at {} (GID {}, RoCE v2)", port.address, port.gid_index);
    }
    if (port.mtu > 0) {
      text += fmt::format(" on {} with MTU {}{}", port.interface, port.mtu,
                          port.mtu < kJumboMtu ? ": 4200 or more is faster" : "");
    }
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

// One that is named, as transport/verbs takes it: "mlx5_0", "mlx5_0:2", or an IP address, each in
// one way of the several that it can be written in.
struct Name {
  std::string text;     // as it was written
  std::string address;  // empty: a device
  std::string device;
  std::string port;  // empty: the first that is of use
};

Name parse(const std::string& text) {
  Name name = {text, "", text, ""};
  in6_addr raw = {};
  for (const int family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, text.c_str(), &raw) != 1) continue;
    name.address = text_of(family, &raw);
    return name;
  }
  const size_t colon = text.find(':');
  uint8_t port = 0;
  const char* end = text.data() + text.size();
  if (colon == std::string::npos) return name;
  const auto [last, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc() || last != end || port == 0) return name;  // no device is called so
  name.device = text.substr(0, colon);
  name.port = std::to_string(port);
  return name;
}

bool is_named(const RdmaPort& port, const Name& name) {
  if (!name.address.empty()) {
    return std::ranges::find(port.addresses, name.address) != port.addresses.end();
  }
  return name.device == port.device && (name.port.empty() || name.port == port.number);
}

// Of a name that nothing is wrong with: the first of its active ports that has an address, IPv4
// before IPv6. An address that is unseen has none.
const RdmaPort* path_of(const Name& name, const VerbsFacts& facts) {
  const RdmaPort* found = nullptr;
  for (const RdmaPort& port : facts.ports) {
    if (!is_named(port, name) || port.state != "ACTIVE" || port.address.empty()) continue;
    const bool is_ipv4 = port.address.find(':') == std::string::npos;
    const bool better =
        found == nullptr || (is_ipv4 && found->address.find(':') != std::string::npos);
    if (better) found = &port;
  }
  return found;
}

std::string all_devices(const VerbsFacts& facts) {
  std::string text;
  for (const std::string& device : facts.devices) text += (text.empty() ? "" : ", ") + device;
  return text;
}

// An address that an InfiniBand port may have: its table of GIDs shows none.
bool is_unseen(const VerbsFacts& facts, const Name& name) {
  const auto& ports = facts.ports;
  return !name.address.empty() &&
         std::ranges::none_of(ports, [&](const RdmaPort& port) { return is_named(port, name); }) &&
         std::ranges::any_of(ports, [](const RdmaPort& port) {
           return port.state == "ACTIVE" && port.interface.empty();
         });
}

// The problem of one that is named.
std::optional<HostSide> look_for(const Name& name, const VerbsFacts& facts) {
  if (is_unseen(facts, name)) return std::nullopt;
  const auto is_this = [&](const RdmaPort& port) { return is_named(port, name); };
  const auto named = std::ranges::find_if(facts.ports, is_this);
  if (named == facts.ports.end() && !name.address.empty()) {
    return HostSide{Level::kProblem,
                    fmt::format("rdma.devices names {}, and no RDMA port has that address: {}",
                                name.text, list(facts)),
                    "rdma link show"};
  }
  if (named == facts.ports.end()) {
    return HostSide{Level::kProblem,
                    fmt::format("rdma.devices names {}, and there is no such device or port; there "
                                "are: {}",
                                name.text, all_devices(facts)),
                    "rdma link show"};
  }
  const bool one_works = std::ranges::any_of(facts.ports, [&](const RdmaPort& port) {
    return is_this(port) && port.state == "ACTIVE" && !port.address.empty();
  });
  if (one_works) return std::nullopt;
  return HostSide{Level::kProblem,
                  fmt::format("rdma.devices names {}, which has no active port with an IP address: "
                              "{}",
                              name.text, list(facts)),
                  "rdma link show " + named->name()};
}

// The problem of all of them together.
std::optional<HostSide> look_for_twice(const std::vector<Name>& names, const VerbsFacts& facts) {
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t other = 0; other < i; ++other) {
      const RdmaPort* path = path_of(names[i], facts);
      const bool is_same = path != nullptr ? path == path_of(names[other], facts)
                                           : names[i].address == names[other].address;
      if (!is_same) continue;
      return HostSide{
          Level::kProblem,
          fmt::format("rdma.devices names {} and {}, which are one port: name each port once",
                      names[other].text, names[i].text),
          "rdma link show"};
    }
  }
  return std::nullopt;
}

// `is_unseen`: an address has been named that may be that of an active port of InfiniBand, or of
// none.
HostSide look(const VerbsFacts& facts, bool is_unseen, const Privileges& privileges) {
  if (facts.devices.empty()) return without_device(facts, privileges);
  // The best there is: one that is used by itself, or InfiniBand, or one that lacks an address.
  const auto find_active = [&](const auto& also) {
    return std::find_if(facts.ports.begin(), facts.ports.end(),
                        [&](const RdmaPort& port) { return port.state == "ACTIVE" && also(port); });
  };
  auto active = find_active([](const RdmaPort& port) { return !port.address.empty(); });
  if (active == facts.ports.end()) {
    active = find_active([](const RdmaPort& port) { return port.interface.empty(); });
  }
  if (active == facts.ports.end()) active = find_active([](const RdmaPort&) { return true; });
  if (facts.user_devices == 0) {
    return {Level::kProblem, list(facts) + "; no /dev/infiniband/uverbs*, so no program can use it",
            privileges.as_root("modprobe ib_uverbs")};
  }
  if (!facts.has_providers) {
    return {Level::kProblem, list(facts) + "; libibverbs has no driver for any device",
            privileges.as_root("apt-get install ibverbs-providers")};
  }
  if (active != facts.ports.end() && !active->interface.empty() && active->address.empty()) {
    return {Level::kProblem, list(facts) + "; without an IP address no peer finds it",
            privileges.as_root("ip address add 192.0.2.1/24 dev " + shell_word(active->interface))};
  }
  if (is_unseen) {
    const auto infiniband =
        find_active([](const RdmaPort& port) { return port.interface.empty(); });
    return {Level::kNote,
            fmt::format("{}; whether an address that rdma.devices names is that of {} (IPoIB), "
                        "only the kernel knows",
                        list(facts), infiniband->name()),
            "ip -brief address show type ipoib"};
  }
  if (active != facts.ports.end() && active->interface.empty()) {
    return {Level::kWarning,
            fmt::format("{}; {} is InfiniBand, which is used only where its IP address (IPoIB) is "
                        "named: --set rdma.devices=ADDRESS",
                        list(facts), active->name()),
            "ip -brief address show type ipoib"};
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
  return {Level::kProblem, text + ": is its cable plugged in?", "rdma link show " + port.name()};
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
  facts.has_providers = !files.names("/etc/libibverbs.d").empty();
  facts.has_soft_rdma = has_soft_rdma(files);
  facts.interface = first_interface(files);
  return facts;
}

size_t rdma_paths(const VerbsFacts& facts, const Wanted& wanted) {
  return wanted.rdma_devices.empty() ? facts.devices.size() : wanted.rdma_devices.size();
}

uint64_t used_devices(size_t devices) {
  return std::clamp<uint64_t>(devices, 1, kMaxDevices);
}

Finding check_verbs(const VerbsFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  std::vector<Name> names;
  for (const std::string& text : wanted.rdma_devices) names.push_back(parse(text));
  if (facts.devices.empty() || names.empty()) {
    return backend_finding(kVerbsCheck, look(facts, false, privileges), wanted);
  }
  if (names.size() > kMaxDevices) {
    const std::string text =
        fmt::format("rdma.devices names {} devices: name at most {}", names.size(), kMaxDevices);
    return backend_finding(kVerbsCheck, {Level::kProblem, text, "rdma link show"}, wanted);
  }
  VerbsFacts used = facts;
  used.ports.clear();
  bool any_unseen = false;
  for (const Name& name : names) {
    if (auto wrong = look_for(name, facts)) return backend_finding(kVerbsCheck, *wrong, wanted);
    const bool unseen = is_unseen(facts, name);
    any_unseen |= unseen;
    std::ranges::copy_if(facts.ports, std::back_inserter(used.ports), [&](const RdmaPort& port) {
      return is_named(port, name) || (unseen && port.interface.empty());
    });
  }
  if (auto wrong = look_for_twice(names, facts))
    return backend_finding(kVerbsCheck, *wrong, wanted);
  return backend_finding(kVerbsCheck, look(used, any_unseen, privileges), wanted);
}

const BackendCheck kVerbsCheck = {
    .name = "verbs",
    .locks_memory = true,
    .descriptors_of_client =
        [](size_t rdma_devices) {
          const uint64_t devices = used_devices(rdma_devices);
          return DescriptorsOfClient{
              kDescriptorsOfVerbsClient + kDescriptorsOfClientAndDevice * devices,
              fmt::format("verbs with {} device{}", devices, devices == 1 ? "" : "s")};
        },
    .examine =
        [](const Wanted& wanted, const HostFiles& files, const Privileges& privileges) {
          return check_verbs(read_verbs(files), wanted, privileges);
        },
};

}  // namespace farpage::doctor
