#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/address/resolve.h"

namespace farpage::verbs {

// A fabric uses at most this many devices, and a channel has at most as many paths.
inline constexpr size_t kMaxDevices = 8;

// One port of an RDMA device, with the protection domain of everything but what a channel keeps for
// itself.
struct Device {
  std::string name;                // "mlx5_0"
  std::string label;               // the same, or "mlx4_0:2" where the device has several ports
  ibv_context* context = nullptr;  // librdmacm's own: its connections carry the same one
  ibv_pd* domain = nullptr;
  uint8_t port = 0;  // that is used, from 1 on
  Endpoint address;  // of that port; its own port number is 0
  ibv_device_attr limits = {};
};

// "mlx5_0", or one of its ports: "mlx5_0:2".
struct DeviceName {
  std::string device;
  uint8_t port = 0;  // 0: the first that is of use
};
// Nothing: there is no such port.
std::optional<DeviceName> parse_device_name(const std::string& text);

// The payload of the largest packet that the port sends and takes, as its network device allows; 0
// where a subnet manager decides, or the device does not say.
uint32_t packet_bytes(const Device& device);

// The devices of one fabric, in the order in which its paths are numbered. Thread-safe.
class Devices {
 public:
  // Each of `names` is a device ("mlx5_0"), one of its ports ("mlx5_0:2"), or an IP address of one
  // ("10.9.0.1"), and each port is named once. None: every device that has an IP address, with its
  // first port that has one.
  static Result<std::shared_ptr<const Devices>> open(const std::vector<std::string>& names);
  Devices() = default;  // none
  ~Devices();

  size_t size() const { return devices_.size(); }
  const Device& operator[](size_t index) const { return devices_[index]; }
  auto begin() const { return devices_.begin(); }
  auto end() const { return devices_.end(); }
  // That of the port, or the first of its device: a connection may be moved to another port.
  // size(): none of them.
  size_t index_of(const ibv_context* context, uint8_t port) const;
  std::string names() const;  // "rxe0, rxe2"
  bool were_named() const { return named_; }

 private:
  Result<void> add(Device device);
  Result<void> add_named(const std::string& name);
  Result<void> add_all();

  ibv_context** contexts_ = nullptr;  // librdmacm's list
  int count_ = 0;
  bool named_ = false;
  std::vector<Device> devices_;
};

}  // namespace farpage::verbs
