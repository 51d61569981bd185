#include "client/fleet/etcd_fleet.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "control/tcp_control.h"
#include "tier/link/membership.h"

namespace farpage {
namespace {

constexpr uint64_t kLongestCallNs = 2 * kSecond;
constexpr uint64_t kCallsPerLease = 6;
constexpr uint64_t kLookAgainNs = 50 * kMillisecond;
constexpr uint64_t kLeasesToMeet = 2;  // a member that has died is left out meanwhile
constexpr uint64_t kMostTtlS = 3'600;
constexpr uint64_t kLeastTtlS = 2;  // etcd's own shortest, with its defaults

// So that an answer leaves half of the view that it is for.
uint64_t call_ns(const etcd::Terms& terms) {
  return std::min(terms.lease_ms * kMillisecond / 2, kLongestCallNs);
}

std::string how_to_begin(const etcd::EtcdOptions& options) {
  if (options.fleet.find('/') != std::string::npos) {
    return fmt::format("its nodes are those with etcd.fleet = \"{}\" and a table [tenant.{}]",
                       options.fleet.substr(0, options.fleet.find('/')),
                       options.fleet.substr(options.fleet.rfind('/') + 1));
  }
  return fmt::format(
      "start one with 'farpage node --set etcd.endpoints={} --set etcd.fleet={} "
      "--set cluster.name=NAME'; where its nodes have tenants, the fleet of one is "
      "etcd.fleet = \"{}\"",
      options.endpoints, options.fleet, etcd::fleet_of_tenant(options.fleet, "NAME"));
}

}  // namespace

Result<void> NodeEtcd::validate() const {
  if (const size_t slash = fleet.find('/'); slash != std::string::npos) {
    return fail(Code::kInvalid,
                fmt::format("etcd.fleet is '{}', which is a name of a tenant's fleet; a node joins "
                            "those through its tables [tenant.NAME]: write etcd.fleet = \"{}\"",
                            fleet, fleet.substr(0, slash)));
  }
  if (ttl_s >= kLeastTtlS && ttl_s <= kMostTtlS) return {};
  return fail(Code::kInvalid,
              fmt::format("etcd.ttl_s is {}: choose {} to {}", ttl_s, kLeastTtlS, kMostTtlS));
}

std::vector<ConfigField> fields(NodeEtcd& options) {
  auto all = fields(static_cast<etcd::EtcdOptions&>(options));
  all.push_back({"ttl_s", &options.ttl_s});
  return all;
}

uint64_t owner_of(const std::string& state_file) {
  std::string machine;
  std::ifstream("/etc/machine-id") >> machine;
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  // Containers may share all of these, but not the folder.
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(state_file, error);
  struct stat folder = {};
  ::stat(path.parent_path().c_str(), &folder);
  return make_page_key("farpage owner", fmt::format("{} {} {} {}:{}", machine, host.data(),
                                                    error ? state_file : path.string(),
                                                    folder.st_dev, folder.st_ino))
      .low;
}

// To wherever the node is now.
class EtcdFleet::Dialer final : public ControlDialer {
 public:
  Dialer(EtcdFleet& fleet, NodeId node) : fleet_(fleet), node_(node) {}

  void dial(DialCallback done) override {
    const std::string address = fleet_.register_->address_of(node_);
    auto& dialer = dialers_[address];
    if (dialer == nullptr) {
      auto made = parse_address(address).and_then([this](const Address& where) {
        return make_dialer(fleet_.runtime_, where, fleet_.credentials_, fleet_.connect_ms_);
      });
      if (!made) {
        const Error error =
            address.empty()
                ? Error{Code::kUnavailable, "this member has not written its address to etcd"}
                : made.error();
        return fleet_.runtime_.after(0, [done, error] { done(tl::unexpected(error)); });
      }
      dialer = std::move(*made);
    }
    dialer->dial(std::move(done));
  }

 private:
  EtcdFleet& fleet_;
  const NodeId node_;
  std::map<std::string, std::unique_ptr<ControlDialer>> dialers_;  // by where it was and is
};

class EtcdFleet::NodeMembership final : public Membership {
 public:
  NodeMembership(EtcdFleet& fleet, uint64_t meet_ns,
                 std::function<void(const std::string&)> cannot_join)
      : fleet_(fleet), meet_ns_(meet_ns), cannot_join_(std::move(cannot_join)) {}

  bool has_address(NodeId node) const override {
    return !fleet_.register_->address_of(node).empty();
  }
  uint64_t meet_ns() const override { return meet_ns_; }
  void cannot_join(const std::string& why) override { cannot_join_(why); }
  void tell_away(uint64_t epoch, const std::vector<NodeId>& nodes) override {
    fleet_.registration_->tell_away(epoch, nodes);
  }

 private:
  EtcdFleet& fleet_;
  const uint64_t meet_ns_;
  const std::function<void(const std::string&)> cannot_join_;
};

EtcdFleet::EtcdFleet(etcd::Access access, AsioRuntime& runtime,
                     const ClientCredentials& credentials, uint64_t connect_ms)
    : runtime_(runtime),
      credentials_(credentials),
      connect_ms_(connect_ms),
      client_(std::move(access)) {}

EtcdFleet::~EtcdFleet() {
  client_.stop();
  runtime_.run([this] {
    register_.reset();
    dialers_.clear();
  });
  registration_.reset();
}

void EtcdFleet::serve(const etcd::Terms& terms) {
  terms_ = terms;
  etcd::Register::Options options = {terms.id, call_ns(terms), {}};
  if (registration_ != nullptr) {
    options.registered = [this] { return registration_->registered(); };
  }
  register_ = std::make_unique<etcd::Register>(runtime_, reader_, std::move(options));
}

Result<std::unique_ptr<EtcdFleet>> EtcdFleet::find(const etcd::EtcdOptions& options,
                                                   AsioRuntime& runtime,
                                                   const ClientCredentials& credentials,
                                                   uint64_t connect_ms) {
  auto access = options.load();
  if (!access) return tl::unexpected(access.error());
  auto made = std::unique_ptr<EtcdFleet>(
      new EtcdFleet(std::move(*access), runtime, credentials, connect_ms));
  const uint64_t deadline = boottime_clock().now_ns() + connect_ms * kMillisecond;
  bool answered = false;
  while (true) {
    const auto read = made->reader_.read(deadline);
    if (!read && answered) break;  // cut short by the deadline: what it said before holds
    if (!read) return tl::unexpected(read.error());
    answered = true;
    const etcd::FleetRecord& fleet = **read;
    if (fleet.terms && !fleet.nodes.empty()) {
      made->first_address_ = fleet.nodes.front().address;
      made->serve(*fleet.terms);
      return made;
    }
    if (boottime_clock().now_ns() + kLookAgainNs >= deadline) break;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLookAgainNs));
  }
  return fail(Code::kUnavailable,
              fmt::format("etcd knows no living memory node of the fleet '{}': {}", options.fleet,
                          how_to_begin(options)));
}

Result<std::unique_ptr<EtcdFleet>> EtcdFleet::join(
    const NodeEtcd& options, const etcd::NodeRecord& self, const etcd::Terms& terms,
    etcd::Registration::Hooks hooks, std::function<void(const std::string&)> cannot_join,
    AsioRuntime& runtime, const ClientCredentials& credentials, uint64_t connect_ms) {
  auto access = options.load();
  if (!access) return tl::unexpected(access.error());
  auto made = std::unique_ptr<EtcdFleet>(
      new EtcdFleet(std::move(*access), runtime, credentials, connect_ms));
  const uint64_t round_ns = std::min(call_ns(terms), options.ttl_s * kSecond / kCallsPerLease);
  auto registered = etcd::Registration::begin(
      made->reader_, {self, terms, options.ttl_s, round_ns, std::move(hooks)});
  if (!registered) return tl::unexpected(registered.error());
  made->registration_ = std::move(*registered);
  made->membership_ = std::make_unique<NodeMembership>(
      *made, kLeasesToMeet * options.ttl_s * kSecond, std::move(cannot_join));
  etcd::Terms agreed = terms;
  agreed.id = made->registration_->fleet_id();
  made->serve(agreed);
  return made;
}

void EtcdFleet::leave() {
  registration_->leave();
}

ControlDialer& EtcdFleet::dialer(NodeId node) {
  auto& dialer = dialers_[node];
  if (dialer == nullptr) dialer = std::make_unique<Dialer>(*this, node);
  return *dialer;
}

Fleet EtcdFleet::fleet() const {
  Fleet fleet;
  fleet.list.replicas = terms_.replicas;
  fleet.list.seed = terms_.seed;
  fleet.list.page_bytes = terms_.page_bytes;
  fleet.epochs = register_.get();
  fleet.view_ns = terms_.lease_ms * kMillisecond;
  fleet.dialer = [self = const_cast<EtcdFleet*>(this)](NodeId node) -> ControlDialer& {
    return self->dialer(node);
  };
  fleet.address_of = [epochs = register_.get()](NodeId node) { return epochs->address_of(node); };
  fleet.heard_of = [epochs = register_.get()](uint64_t epoch, NodeId node,
                                              const std::string& address) {
    epochs->heard_of(epoch, node, address);
  };
  fleet.membership = membership_.get();
  return fleet;
}

}  // namespace farpage
