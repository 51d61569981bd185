#include "transport/verbs/paths/device.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "net/address/address.h"

namespace farpage::verbs {
namespace {

constexpr const char* kAdvice =
    "`farpage doctor` says what this host has, and how a device gets one";

std::optional<Endpoint> to_endpoint(const ibv_gid& gid) {
  const auto* raw = reinterpret_cast<const in6_addr*>(gid.raw);
  Endpoint endpoint;
  if (IN6_IS_ADDR_V4MAPPED(raw)) {
    auto& address = reinterpret_cast<sockaddr_in&>(endpoint.storage);
    address.sin_family = AF_INET;
    std::memcpy(&address.sin_addr, gid.raw + 12, sizeof address.sin_addr);
    endpoint.bytes = sizeof address;
    return endpoint;
  }
  if (IN6_IS_ADDR_UNSPECIFIED(raw) || IN6_IS_ADDR_LINKLOCAL(raw)) return std::nullopt;
  auto& address = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
  address.sin6_family = AF_INET6;
  address.sin6_addr = *raw;
  endpoint.bytes = sizeof address;
  return endpoint;
}

// With the first IP address of an active port, or of port `wanted` alone, IPv4 before IPv6. On
// InfiniBand proper a GID is none.
std::optional<Device> with_address(ibv_context* context, const ibv_device_attr& limits,
                                   uint8_t wanted = 0) {
  std::optional<Device> found;
  for (uint32_t port = 1; port <= limits.phys_port_cnt; ++port) {
    if (wanted != 0 && port != wanted) continue;
    ibv_port_attr attributes = {};
    if (::ibv_query_port(context, static_cast<uint8_t>(port), &attributes) != 0) continue;
    if (attributes.state != IBV_PORT_ACTIVE || attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {
      continue;
    }
    for (int index = 0; index < attributes.gid_tbl_len; ++index) {
      ibv_gid_entry entry = {};
      if (::ibv_query_gid_ex(context, port, static_cast<uint32_t>(index), &entry, 0) != 0) continue;
      if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
      const auto address = to_endpoint(entry.gid);
      if (!address) continue;
      if (found && (found->address.family() == AF_INET || address->family() == AF_INET6)) continue;
      found = Device{.name = {},
                     .label = {},
                     .context = context,
                     .port = static_cast<uint8_t>(port),
                     .address = *address};
    }
  }
  return found;
}

std::optional<Endpoint> parse_ip(const std::string& text) {
  Endpoint endpoint;
  auto& four = reinterpret_cast<sockaddr_in&>(endpoint.storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    endpoint.bytes = sizeof four;
  } else if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    endpoint.bytes = sizeof six;
  } else {
    return std::nullopt;
  }
  return endpoint;
}

// librdmacm knows which device has an address.
std::optional<Device> device_at(const Endpoint& address) {
  rdma_cm_id* id = nullptr;
  if (::rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return std::nullopt;
  std::optional<Device> found;
  if (::rdma_bind_addr(id, const_cast<sockaddr*>(address.address())) == 0 && id->verbs != nullptr) {
    found = Device{
        .name = {}, .label = {}, .context = id->verbs, .port = id->port_num, .address = address};
  }
  ::rdma_destroy_id(id);
  return found;
}

}  // namespace

std::optional<DeviceName> parse_device_name(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return DeviceName{text, 0};
  DeviceName name = {text.substr(0, colon), 0};
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + colon + 1, end, name.port);
  if (error != std::errc() || last != end || name.port == 0) return std::nullopt;
  return name;
}

uint32_t packet_bytes(const Device& device) {
  constexpr uint32_t kSmallest = 128;  // doubled by each step of ibv_mtu
  ibv_port_attr attributes = {};
  if (::ibv_query_port(device.context, device.port, &attributes) != 0) return 0;
  if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET) return 0;
  return kSmallest << attributes.active_mtu;
}

Result<std::shared_ptr<const Devices>> Devices::open(const std::vector<std::string>& names) {
  // Else a kernel before 5.12 moves registered pages away when this process forks.
  if (::ibv_is_fork_initialized() == IBV_FORK_DISABLED) ::ibv_fork_init();
  const std::shared_ptr<Devices> devices(new Devices);
  devices->contexts_ = ::rdma_get_devices(&devices->count_);
  if (devices->contexts_ == nullptr || devices->count_ == 0) {
    return fail(Code::kUnavailable,
                "this host has no RDMA device that can be used: `farpage doctor` says what is "
                "missing; --backend tcp needs none");
  }
  if (names.size() > kMaxDevices) {
    return fail(Code::kInvalid, fmt::format("rdma.devices names {} devices: name at most {}",
                                            names.size(), kMaxDevices));
  }
  devices->named_ = !names.empty();
  if (names.empty()) {
    if (auto added = devices->add_all(); !added) return tl::unexpected(added.error());
  }
  for (const std::string& name : names) {
    if (auto added = devices->add_named(name); !added) return tl::unexpected(added.error());
  }
  return devices;
}

Devices::~Devices() {
  for (const Device& device : devices_) ::ibv_dealloc_pd(device.domain);
  if (contexts_ != nullptr) ::rdma_free_devices(contexts_);
}

Result<void> Devices::add(Device device) {
  ibv_context* context = device.context;
  device.name = ::ibv_get_device_name(context->device);
  const auto is_same = [&](const Device& other) {
    return other.context == context && other.port == device.port;
  };
  if (std::ranges::any_of(devices_, is_same)) {
    return fail(Code::kInvalid,
                fmt::format("rdma.devices names port {} of the device {} twice: it is one path, by "
                            "whichever name or address",
                            device.port, device.name));
  }
  if (const int error = ::ibv_query_device(context, &device.limits); error != 0) {
    return fail_errno(error, fmt::format("cannot ask the RDMA device {} what it can", device.name));
  }
  device.label = device.limits.phys_port_cnt > 1 ? fmt::format("{}:{}", device.name, device.port)
                                                 : device.name;
  // A read lands in two places.
  if (device.limits.max_sge < 2 || device.limits.max_sge_rd < 2) {
    return fail(Code::kInvalid,
                fmt::format("the RDMA device {} cannot scatter a read to two places", device.name));
  }
  device.domain = ::ibv_alloc_pd(context);
  if (device.domain == nullptr) {
    return fail_errno(
        errno, fmt::format("cannot make a protection domain on the RDMA device {}", device.name));
  }
  devices_.push_back(std::move(device));
  return {};
}

Result<void> Devices::add_named(const std::string& name) {
  if (const auto address = parse_ip(name)) {
    auto device = device_at(*address);
    if (device) return add(std::move(*device));
    return fail(Code::kNotFound,
                fmt::format("no RDMA device has the address {}: {}", name, kAdvice));
  }
  const auto wanted = parse_device_name(name);
  if (!wanted) {
    return fail(
        Code::kInvalid,
        fmt::format("rdma.devices names {}: a port of a device is a number from 1 on, as in "
                    "mlx5_0:1",
                    name));
  }
  std::string present;
  for (int i = 0; i < count_; ++i) {
    const std::string candidate = ::ibv_get_device_name(contexts_[i]->device);
    present += (present.empty() ? "" : ", ") + candidate;
    if (candidate != wanted->device) continue;
    ibv_device_attr limits = {};
    ::ibv_query_device(contexts_[i], &limits);
    if (wanted->port > limits.phys_port_cnt) {
      return fail(Code::kNotFound,
                  fmt::format("there is no port {} of the RDMA device {}: it has {}", wanted->port,
                              candidate, limits.phys_port_cnt));
    }
    auto device = with_address(contexts_[i], limits, wanted->port);
    if (device) return add(std::move(*device));
    if (wanted->port > 0) {
      return fail(
          Code::kUnavailable,
          fmt::format("port {} of the RDMA device {} is not active, or has no IP address: {}",
                      wanted->port, candidate, kAdvice));
    }
    return fail(Code::kUnavailable, fmt::format("the RDMA device {} has no active port with an IP "
                                                "address: {}",
                                                name, kAdvice));
  }
  return fail(Code::kNotFound,
              fmt::format("there is no RDMA device {}; there are: {}", wanted->device, present));
}

Result<void> Devices::add_all() {
  for (int i = 0; i < count_ && devices_.size() < kMaxDevices; ++i) {
    ibv_device_attr limits = {};
    if (::ibv_query_device(contexts_[i], &limits) != 0) continue;
    auto device = with_address(contexts_[i], limits);
    if (!device) continue;
    if (auto added = add(std::move(*device)); !added) return added;
  }
  if (!devices_.empty()) return {};
  return fail(Code::kUnavailable,
              fmt::format("no RDMA device has an active port with an IP address: {}", kAdvice));
}

size_t Devices::index_of(const ibv_context* context, uint8_t port) const {
  size_t found = devices_.size();
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].context != context) continue;
    if (devices_[i].port == port) return i;
    found = std::min(found, i);
  }
  return found;
}

std::string Devices::names() const {
  std::string names;
  for (const Device& device : devices_) names += (names.empty() ? "" : ", ") + device.label;
  return names;
}

}  // namespace farpage::verbs
