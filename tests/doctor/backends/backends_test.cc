#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "doctor/backends/backend_shm.h"
#include "doctor/backends/backend_tcp.h"
#include "doctor/backends/backend_ucx.h"
#include "doctor/backends/backend_verbs.h"
#include "tests/doctor/made_up_host.h"

namespace farpage::doctor {
namespace {

Wanted with_every_backend() {
  Wanted wanted = some_wanted();
  wanted.built = BackendSet::every();
  return wanted;
}

void expect(const Finding& finding, Level level, const std::string& command) {
  EXPECT_EQ(finding.level, level) << finding.text;
  EXPECT_EQ(finding.command, command) << finding.text;
}

TEST(DoctorBackends, OneThatIsNotBuiltIsAProblemWhateverTheHostHas) {
  Wanted wanted = with_every_backend();
  wanted.built = {&kShmCheck, &kTcpCheck};
  const Finding lacking = check_ucx({}, wanted, kUser);
  expect(lacking, Level::kProblem, "sudo apt-get install libucx0");
  EXPECT_NE(lacking.text.find("not in this build of farpage, which has shm, tcp"),
            std::string::npos);
  const Finding there = check_ucx({"/usr/lib/libucp.so.0", false}, wanted, kUser);
  expect(there, Level::kProblem, "farpage doctor --backend tcp");
  EXPECT_NE(there.text.find("/usr/lib/libucp.so.0"), std::string::npos);
  wanted.built = {&kShmCheck, &kTcpCheck, &kVerbsCheck};  // which may lack a device too
  expect(check_ucx({"/usr/lib/libucp.so.0", false}, wanted, kUser), Level::kProblem,
         "farpage doctor --backend tcp");
  wanted.built = {&kShmCheck};
  expect(check_tcp({}, wanted, kUser), Level::kProblem, "farpage doctor --backend shm");
}

TEST(DoctorBackends, Shm) {
  using Step = ShmFacts::Step;
  constexpr const char* kKernel = "apt-get install linux-image-amd64";
  struct Case {
    ShmFacts facts;
    Level level;
    const char* command;
  };
  for (const Case& each : {
           Case{{}, Level::kOk, ""},
           Case{{Step::kCreate, EACCES, 2}, Level::kProblem, "sysctl -w vm.memfd_noexec=1"},
           Case{{Step::kCreate, EMFILE, 0}, Level::kProblem, "ulimit -n 1024"},
           Case{{Step::kCreate, EPERM, 0}, Level::kProblem, "grep Seccomp /proc/self/status"},
           Case{{Step::kSize, EFBIG, 0}, Level::kProblem, "ulimit -v unlimited -f unlimited"},
           Case{{Step::kMap, ENOMEM, 0}, Level::kProblem, "ulimit -v unlimited -f unlimited"},
           Case{{Step::kSeal, EINVAL, 0}, Level::kProblem, kKernel},
           Case{{Step::kReadOnly, 0, 0}, Level::kProblem, kKernel},
       }) {
    expect(check_shm(each.facts, with_every_backend(), kRoot), each.level, each.command);
  }
}

TEST(DoctorBackends, ShmIsTriedHere) {
  MadeUpHost host;
  host.put("/proc/sys/vm/memfd_noexec", "1\n");
  const ShmFacts facts = read_shm(host.files());
  EXPECT_EQ(facts.failed, ShmFacts::Step::kDone);
  EXPECT_EQ(facts.memfd_noexec, 1u);
}

TEST(DoctorBackends, Tcp) {
  struct Case {
    TcpFacts facts;
    Level level;
    const char* command;
  };
  for (const Case& each : {
           Case{{0, 0}, Level::kOk, ""},
           Case{{0, EADDRNOTAVAIL}, Level::kOk, ""},
           Case{{ENETUNREACH, ENETUNREACH}, Level::kProblem, "sudo ip link set lo up"},
           Case{{EMFILE, EMFILE}, Level::kProblem, "ulimit -n 1024"},
           Case{{ETIMEDOUT, 0}, Level::kProblem, "sudo iptables -I INPUT -i lo -j ACCEPT"},
       }) {
    expect(check_tcp(each.facts, with_every_backend(), kUser), each.level, each.command);
  }
  const Finding finding = check_tcp({0, EAFNOSUPPORT}, with_every_backend(), kUser);
  EXPECT_NE(finding.text.find("not supported"), std::string::npos) << finding.text;
}

TEST(DoctorBackends, TcpIsTriedHere) {
  EXPECT_EQ(read_tcp().ipv4_error, 0);
}

void put_port(MadeUpHost& host, const std::string& port, const std::string& state,
              const std::string& link_layer) {
  const std::string folder = "/sys/class/infiniband/" + port;
  host.put(folder + "/state", state + "\n").put(folder + "/link_layer", link_layer + "\n");
}

Finding verbs_on(const MadeUpHost& host) {
  return check_verbs(read_verbs(host.files()), with_every_backend(), kUser);
}

TEST(DoctorBackends, VerbsWithoutADevice) {
  MadeUpHost bare;
  expect(verbs_on(bare), Level::kProblem, "sudo apt-get install linux-image-amd64");

  MadeUpHost host;
  host.put("/proc/sys/kernel/osrelease", "6.1.0\n")
      .put("/lib/modules/6.1.0/modules.dep", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: x\n")
      .put("/sys/class/net/lo/operstate", "unknown\n")
      .put("/sys/class/net/eth7/operstate", "down\n")
      .put("/sys/class/net/eth8/operstate", "up\n");
  expect(verbs_on(host), Level::kProblem,
         "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth8");

  MadeUpHost loaded;
  loaded.put("/sys/module/rdma_rxe/refcnt", "0\n");
  expect(verbs_on(loaded), Level::kProblem,
         "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev lo");
}

TEST(DoctorBackends, VerbsWithDevices) {
  MadeUpHost active;
  put_port(active, "mlx5_0/ports/1", "1: DOWN", "InfiniBand");
  put_port(active, "mlx5_0/ports/2", "4: ACTIVE", "InfiniBand");
  expect(verbs_on(active), Level::kProblem, "sudo modprobe ib_uverbs");
  active.put("/dev/infiniband/uverbs0", "");
  expect(verbs_on(active), Level::kProblem, "sudo apt-get install ibverbs-providers");
  active.put("/etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
  // By itself only an Ethernet port with an address is used.
  expect(verbs_on(active), Level::kWarning, "ip -brief address show type ipoib");
  EXPECT_EQ(verbs_on(active).text,
            "mlx5_0/1 is DOWN, mlx5_0/2 is ACTIVE; mlx5_0/2 is InfiniBand, which is used only "
            "where its IP address (IPoIB) is named: --set rdma.devices=ADDRESS");
  // One without is no better, though it comes first.
  const std::string ethernet = "/sys/class/infiniband/mlx4_0/ports/1";
  put_port(active, "mlx4_0/ports/1", "4: ACTIVE", "Ethernet");
  expect(verbs_on(active), Level::kWarning, "ip -brief address show type ipoib");
  active.put(ethernet + "/gid_attrs/types/0", "RoCE v2\n")
      .put(ethernet + "/gids/0", "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
  expect(verbs_on(active), Level::kOk, "");

  MadeUpHost waiting;
  waiting.put("/dev/infiniband/uverbs0", "").put("/etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
  put_port(waiting, "mlx5_0/ports/1", "2: INIT", "InfiniBand");
  expect(verbs_on(waiting), Level::kProblem,
         "sudo apt-get install opensm && sudo systemctl start opensm");
  put_port(waiting, "mlx5_0/ports/1", "1: DOWN", "InfiniBand");
  expect(verbs_on(waiting), Level::kProblem, "rdma link show mlx5_0/1");
  put_port(waiting, "mlx5_0/ports/1", "1: DOWN", "Ethernet");
  waiting.put("/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "ens3\n");
  expect(verbs_on(waiting), Level::kProblem, "sudo ip link set ens3 up");
}

TEST(DoctorBackends, VerbsOverEthernetNeedsAnIpAddress) {
  const std::string port = "/sys/class/infiniband/rxe0/ports/1";
  MadeUpHost host;
  host.put("/dev/infiniband/uverbs0", "").put("/etc/libibverbs.d/rxe.driver", "driver rxe\n");
  put_port(host, "rxe0/ports/1", "4: ACTIVE", "Ethernet");
  host.put(port + "/gid_attrs/ndevs/0", "ens3\n")
      .put(port + "/gid_attrs/types/0", "RoCE v2\n")
      .put(port + "/gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456\n")
      .put("/sys/class/net/ens3/mtu", "1500\n");
  expect(verbs_on(host), Level::kProblem, "sudo ip address add 192.0.2.1/24 dev ens3");
  host.put(port + "/gid_attrs/types/2", "IB/RoCE v1\n")
      .put(port + "/gids/2", "0000:0000:0000:0000:0000:ffff:0a09:0001\n")
      .put(port + "/gid_attrs/types/3", "RoCE v2\n")
      .put(port + "/gids/3", "2001:0db8:0000:0000:0000:0000:0000:0001\n");
  EXPECT_NE(verbs_on(host).text.find("2001:db8::1 (GID 3"), std::string::npos);
  host.put(port + "/gid_attrs/types/5", "RoCE v2\n")
      .put(port + "/gids/5", "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
  expect(verbs_on(host), Level::kOk, "");
  EXPECT_EQ(verbs_on(host).text,
            "rxe0/1 is ACTIVE at 10.9.0.1 (GID 5, RoCE v2) on ens3 with MTU 1500: 4200 or more is "
            "faster");
  host.put("/sys/class/net/ens3/mtu", "9000\n");
  EXPECT_EQ(verbs_on(host).text,
            "rxe0/1 is ACTIVE at 10.9.0.1 (GID 5, RoCE v2) on ens3 with MTU 9000");
}

class DoctorNamedDevices : public ::testing::Test {
 protected:
  DoctorNamedDevices() {
    host_.put("/dev/infiniband/uverbs0", "").put("/etc/libibverbs.d/mlx4.driver", "driver mlx4\n");
    put_port(host_, "mlx4_0/ports/1", "4: ACTIVE", "Ethernet");
    put_port(host_, "mlx4_0/ports/2", "4: ACTIVE", "Ethernet");
    put_port(host_, "mlx5_0/ports/1", "1: DOWN", "Ethernet");
    put_address("mlx4_0/ports/1", 0, "0a09:0001");
    put_address("mlx4_0/ports/2", 0, "0a08:0001");
    put_address("mlx4_0/ports/2", 1, "0a07:0001");
    put_address("mlx5_0/ports/1", 0, "0a06:0001");
  }

  void put_address(const std::string& port, int index, const std::string& ipv4) {
    const std::string folder = "/sys/class/infiniband/" + port;
    host_.put(fmt::format("{}/gid_attrs/types/{}", folder, index), "RoCE v2\n")
        .put(fmt::format("{}/gids/{}", folder, index),
             "0000:0000:0000:0000:0000:ffff:" + ipv4 + "\n");
  }
  Finding of(const std::vector<std::string>& names) {
    Wanted wanted = with_every_backend();
    wanted.rdma_devices = names;
    return check_verbs(read_verbs(host_.files()), wanted, kUser);
  }

  MadeUpHost host_;
};

TEST_F(DoctorNamedDevices, OnlyTheirPortsAreLookedAt) {
  constexpr const char* kFirst = "mlx4_0/1 is ACTIVE at 10.9.0.1 (GID 0, RoCE v2)";
  constexpr const char* kSecond = "mlx4_0/2 is ACTIVE at 10.8.0.1 (GID 0, RoCE v2)";
  const auto text = [&](const std::vector<std::string>& names) {
    expect(of(names), Level::kOk, "");
    return of(names).text;
  };
  EXPECT_EQ(text({}).find(kFirst), 0u);
  EXPECT_NE(text({}).find("mlx5_0/1 is DOWN"), std::string::npos);
  EXPECT_EQ(text({"mlx4_0"}).find("mlx5_0"), std::string::npos);
  for (const char* name : {"mlx4_0:1", "10.9.0.1"}) {
    EXPECT_EQ(text({name}).find(kFirst), 0u) << name;
    EXPECT_EQ(text({name}).find("mlx4_0/2"), std::string::npos) << name;
  }
  for (const char* name : {"mlx4_0:2", "10.8.0.1", "10.7.0.1"}) {
    EXPECT_EQ(text({name}).find(kSecond), 0u) << name;
  }
  EXPECT_EQ(text({"10.8.0.1", "mlx4_0:1"}).find(kSecond), 0u);
  EXPECT_NE(text({"10.8.0.1", "mlx4_0:1"}).find(kFirst), std::string::npos);
}

TEST_F(DoctorNamedDevices, OneThatIsNotThereIsAProblemWhateverElseThereIs) {
  for (const char* name : {"mlx5_9", "mlx4_0:3", "mlx4", "mlx4_0:", "192.0.2.1", "2001:db8::1"}) {
    const Finding finding = of({"mlx4_0", name});
    expect(finding, Level::kProblem, "rdma link show");
    EXPECT_EQ(finding.text.find(fmt::format("rdma.devices names {}, and", name)), 0u)
        << finding.text;
  }
  EXPECT_NE(of({"mlx5_9"}).text.find("there are: mlx4_0, mlx5_0"), std::string::npos);
}

TEST_F(DoctorNamedDevices, OneThatIsDownIsAProblem) {
  for (const char* name : {"mlx5_0", "mlx5_0:1", "10.6.0.1"}) {
    expect(of({"mlx4_0", name}), Level::kProblem, "rdma link show mlx5_0/1");
  }
}

// Which the table of GIDs does not show.
TEST_F(DoctorNamedDevices, AnAddressMayBeOneOfInfiniBand) {
  put_port(host_, "mlx6_0/ports/1", "4: ACTIVE", "InfiniBand");
  expect(of({"192.0.2.1"}), Level::kNote, "ip -brief address show type ipoib");
  expect(of({"mlx6_0"}), Level::kProblem, "rdma link show mlx6_0/1");
  for (const auto& names :
       {std::vector<std::string>{"192.0.2.1", "mlx4_0"}, {"mlx4_0", "2001:db8::1"}}) {
    const Finding finding = of(names);
    expect(finding, Level::kNote, "ip -brief address show type ipoib");
    EXPECT_NE(finding.text.find("is that of mlx6_0/1 (IPoIB)"), std::string::npos) << finding.text;
  }
}

TEST_F(DoctorNamedDevices, OneMayBeWrittenInEveryWayThatTheNodeTakes) {
  const std::string folder = "/sys/class/infiniband/mlx4_0/ports/1";
  host_.put(folder + "/gid_attrs/types/1", "RoCE v2\n")
      .put(folder + "/gids/1", "2001:0db8:0000:0000:0000:0000:0000:0001\n");
  for (const char* name : {"mlx4_0:01", "2001:db8::1", "2001:DB8:0:0:0:0:0:1", "2001:0db8::0:1"}) {
    expect(of({name}), Level::kOk, "");
    EXPECT_EQ(of({name}).text.find("mlx4_0/1 is ACTIVE"), 0u) << name;
  }
  for (const char* name : {"mlx4_0:1x", "mlx4_0:0", "mlx4_0:257", "::ffff:10.9.0.1"}) {
    expect(of({name}), Level::kProblem, "rdma link show");
  }
}

TEST_F(DoctorNamedDevices, OnePortIsNamedOnceWhateverItIsCalled) {
  using Names = std::vector<std::string>;
  for (const Names& names :
       {Names{"mlx4_0:1", "mlx4_0:1"}, Names{"mlx4_0", "mlx4_0:1"}, Names{"mlx4_0:01", "10.9.0.1"},
        Names{"10.8.0.1", "mlx4_0:1", "10.7.0.1"}}) {
    expect(of(names), Level::kProblem, "rdma link show");
    EXPECT_NE(of(names).text.find("one port"), std::string::npos) << of(names).text;
  }
  expect(of({"mlx4_0", "mlx4_0:2"}), Level::kOk, "");  // the first of its ports, and the second
  put_port(host_, "mlx6_0/ports/1", "4: ACTIVE", "InfiniBand");
  expect(of({"2001:db8::2", "2001:db8:0::2"}), Level::kProblem, "rdma link show");
  expect(of({"2001:db8::2", "2001:db8::3"}), Level::kNote, "ip -brief address show type ipoib");
}

// The first with IPv4, as the node chooses.
TEST_F(DoctorNamedDevices, ADeviceStandsForItsFirstPortWithIpv4) {
  const std::string folder = "/sys/class/infiniband/mlx7_0/ports/1";
  put_port(host_, "mlx7_0/ports/1", "4: ACTIVE", "Ethernet");
  put_port(host_, "mlx7_0/ports/2", "4: ACTIVE", "Ethernet");
  host_.put(folder + "/gid_attrs/types/0", "RoCE v2\n")
      .put(folder + "/gids/0", "2001:0db8:0000:0000:0000:0000:0000:0001\n");
  put_address("mlx7_0/ports/2", 0, "0a05:0001");
  expect(of({"mlx7_0", "mlx7_0:1"}), Level::kOk, "");
  expect(of({"mlx7_0", "mlx7_0:2"}), Level::kProblem, "rdma link show");
}

TEST_F(DoctorNamedDevices, AtMostEight) {
  std::vector<std::string> names;
  for (int i = 0; i < 9; ++i) {
    const std::string device = fmt::format("mlx8_{}", i);
    put_port(host_, device + "/ports/1", "4: ACTIVE", "Ethernet");
    put_address(device + "/ports/1", 0, fmt::format("0a04:{:04x}", i + 1));
    names.push_back(device);
  }
  expect(of(names), Level::kProblem, "rdma link show");
  EXPECT_EQ(of(names).text.find("rdma.devices names 9 devices: name at most 8"), 0u);
  names.pop_back();
  expect(of(names), Level::kOk, "");
}

TEST_F(DoctorNamedDevices, AsManyPathsAsThereAreNames) {
  const VerbsFacts facts = read_verbs(host_.files());
  Wanted wanted = with_every_backend();
  EXPECT_EQ(rdma_paths(facts, wanted), 2u);
  wanted.rdma_devices = {"mlx4_0"};
  EXPECT_EQ(rdma_paths(facts, wanted), 1u);
  wanted.rdma_devices = {"mlx4_0:1", "mlx4_0:2", "mlx5_0"};
  EXPECT_EQ(rdma_paths(facts, wanted), 3u);
}

TEST(DoctorBackends, Ucx) {
  MadeUpHost host;
  Wanted wanted = with_every_backend();
  wanted.ucx_module = "/opt/lib/farpage/libfarpage_ucx.so";
  const auto finding = [&] { return check_ucx(read_ucx(host.files(), wanted), wanted, kRoot); };
  expect(finding(), Level::kProblem, "apt-get install libucx0");
  host.put("/usr/lib64/libucp.so.0", "");
  EXPECT_EQ(finding().level, Level::kProblem);
  EXPECT_NE(finding().text.find(wanted.ucx_module + ", which is not there"), std::string::npos);
  host.put(wanted.ucx_module, "");
  expect(finding(), Level::kOk, "");
  EXPECT_TRUE(finding().text.starts_with("/usr/lib64/libucp.so.0;"));
}

}  // namespace
}  // namespace farpage::doctor
