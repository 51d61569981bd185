// Which devices and ports a fabric uses. The two devices are none that there are: mlx4_0 with three
// ports, of which the second is down, and mlx5_0 with one.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "transport/verbs/connection.h"
#include "transport/verbs/paths/device.h"

namespace farpage::verbs {
namespace {

struct MadeUpContext {
  ibv_context context = {};
  ibv_device device = {};
  uint8_t ports = 0;
};

std::array<MadeUpContext, 2> made_up;

ibv_context** list_devices(int* count) {
  static std::array<ibv_context*, 3> list = {};
  constexpr std::array kNames = {"mlx4_0", "mlx5_0"};
  for (size_t i = 0; i < made_up.size(); ++i) {
    made_up[i].context.device = &made_up[i].device;
    std::ranges::copy(std::string_view(kNames[i]), made_up[i].device.name);
    made_up[i].ports = i == 0 ? 3 : 1;
    list[i] = &made_up[i].context;
  }
  *count = static_cast<int>(made_up.size());
  return list.data();
}

size_t number_of(const ibv_context* context) {
  return context == &made_up[0].context ? 0 : 1;
}

// 10.DEVICE.PORT.1
void write_address(const ibv_context* context, uint32_t port, ibv_gid& gid) {
  gid = {};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[13] = static_cast<uint8_t>(number_of(context));
  gid.raw[14] = static_cast<uint8_t>(port);
  gid.raw[15] = 1;
}

}  // namespace
}  // namespace farpage::verbs

#undef ibv_query_port

// In place of libibverbs' and librdmacm's.
extern "C" {
ibv_context** rdma_get_devices(int* count) {
  return farpage::verbs::list_devices(count);
}
void rdma_free_devices(ibv_context**) {}
const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}
ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_ENABLED;
}
int ibv_query_device(ibv_context* context, ibv_device_attr* limits) {
  *limits = {};
  limits->phys_port_cnt = farpage::verbs::made_up[farpage::verbs::number_of(context)].ports;
  limits->max_sge = limits->max_sge_rd = 2;
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t port, _compat_ibv_port_attr* compatible) {
  auto* attributes = reinterpret_cast<ibv_port_attr*>(compatible);
  attributes->state = port == 2 ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->gid_tbl_len = 1;
  return 0;
}
int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t, size_t) {
  if (index > 0) return ENOENT;
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  farpage::verbs::write_address(context, port, entry->gid);
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return new ibv_pd{context, 0};
}
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  const uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
  id->verbs = &farpage::verbs::made_up[ip >> 16 & 0xff].context;
  id->port_num = static_cast<uint8_t>(ip >> 8);
  return 0;
}
}

namespace farpage::verbs {
namespace {

void expect_refused(const std::vector<std::string>& names, Code code, const std::string& sentence) {
  const auto devices = Devices::open(names);
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().code, code) << devices.error().message;
  EXPECT_NE(devices.error().message.find(sentence), std::string::npos) << devices.error().message;
}

std::shared_ptr<const Devices> open(const std::vector<std::string>& names) {
  auto devices = Devices::open(names);
  if (!devices) ADD_FAILURE() << devices.error().message;
  return devices ? *devices : std::make_shared<const Devices>();
}

TEST(VerbsDevices, ANameMayEndInAPort) {
  struct Case {
    const char* text;
    const char* device;
    int port;
  };
  for (const Case& each : {Case{"mlx5_0", "mlx5_0", 0}, Case{"mlx5_0:1", "mlx5_0", 1},
                           Case{"mlx5_0:255", "mlx5_0", 255}}) {
    const auto name = parse_device_name(each.text);
    ASSERT_TRUE(name) << each.text;
    EXPECT_EQ(name->device, each.device);
    EXPECT_EQ(name->port, each.port);
  }
  for (const char* text : {"mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:-1", "mlx5_0:+1",
                           "mlx5_0:1:1", "mlx5_0:1x", "mlx5_0:x", "mlx5_0: 1", "::"}) {
    EXPECT_FALSE(parse_device_name(text)) << text;
  }
}

TEST(VerbsDevices, EachPortIsAPathOfItsOwn) {
  for (const auto& names : {std::vector<std::string>{"mlx4_0:3", "mlx5_0", "mlx4_0:1"},
                            std::vector<std::string>{"10.0.3.1", "mlx5_0:1", "10.0.1.1"}}) {
    const auto devices = open(names);
    ASSERT_EQ(devices->size(), 3u);
    EXPECT_EQ(devices->names(), "mlx4_0:3, mlx5_0, mlx4_0:1");
    EXPECT_EQ((*devices)[0].address.host(), "10.0.3.1");
    EXPECT_EQ((*devices)[1].address.host(), "10.1.1.1");
    EXPECT_EQ((*devices)[2].address.host(), "10.0.1.1");
    EXPECT_NE((*devices)[0].domain, (*devices)[2].domain);
    const ibv_context* const context = (*devices)[0].context;
    EXPECT_EQ((*devices)[2].context, context);
    EXPECT_EQ(devices->index_of(context, 3), 0u);
    EXPECT_EQ(devices->index_of(context, 1), 2u);
    EXPECT_EQ(devices->index_of((*devices)[1].context, 1), 1u);
    EXPECT_EQ(devices->index_of(context, 2), 0u) << "the device at least is named";
    EXPECT_EQ(devices->index_of(nullptr, 1), 3u);
  }
}

TEST(VerbsDevices, WithoutANumberItIsTheFirstPortOfUse) {
  for (const auto& names : {std::vector<std::string>{}, {"mlx4_0", "mlx5_0"}}) {
    EXPECT_EQ(open(names)->names(), "mlx4_0:1, mlx5_0");
  }
}

TEST(VerbsDevices, APortIsNamedOnce) {
  for (const char* other : {"mlx4_0", "mlx4_0:1", "10.0.1.1"}) {
    expect_refused({"mlx4_0:1", "mlx5_0", other}, Code::kInvalid,
                   "rdma.devices names port 1 of the device mlx4_0 twice");
  }
}

TEST(VerbsDevices, OnesThatAreNotThereAreRefusedByName) {
  expect_refused({"mlx5_0", "mlx5_1:1"}, Code::kNotFound,
                 "there is no RDMA device mlx5_1; there are: mlx4_0, mlx5_0");
  expect_refused({"mlx4_0:4"}, Code::kNotFound,
                 "there is no port 4 of the RDMA device mlx4_0: it has 3");
  expect_refused({"mlx4_0:2"}, Code::kUnavailable,
                 "port 2 of the RDMA device mlx4_0 is not active");
  expect_refused({"mlx4_0:x"}, Code::kInvalid, "rdma.devices names mlx4_0:x");
}

}  // namespace
}  // namespace farpage::verbs
