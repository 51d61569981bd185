#include "bench/epoch/lone_member.h"

#include <algorithm>
#include <utility>

namespace farpage {

LoneMember::LoneMember(const NodeOptions& options,
                       const std::function<std::unique_ptr<Fabric>()>& make_fabric)
    : options_(options),
      register_(Epoch{}),
      fabric_(make_fabric()),
      client_fabric_(make_fabric()),
      epochs_(register_.access(runtime_)),
      client_epochs_(register_.access(client_runtime_)) {}

Result<std::unique_ptr<LoneMember>> LoneMember::start(
    NodeOptions options, const std::function<std::unique_ptr<Fabric>()>& make_fabric,
    const std::string& folder) {
  const std::string socket = folder + "/node.sock";
  const std::string nobody = folder + "/nobody.sock";
  options.listen = socket;
  options.state = folder + "/node.state";
  std::unique_ptr<LoneMember> made(new LoneMember(options, make_fabric));
  LoneMember& member = *made;
  auto to_self = make_unix_dialer(member.client_runtime_, socket);
  auto to_nobody = make_unix_dialer(member.runtime_, nobody);
  auto client_to_nobody = make_unix_dialer(member.client_runtime_, nobody);
  for (auto* dialer : {&to_self, &to_nobody, &client_to_nobody}) {
    if (!*dialer) return tl::unexpected(dialer->error());
  }
  member.to_self_ = std::move(*to_self);
  member.to_nobody_ = std::move(*to_nobody);
  member.client_to_nobody_ = std::move(*client_to_nobody);

  Result<std::unique_ptr<NodeService>> node = fail(Code::kUnavailable, "");
  const Fleet fleet = member.fleet_for(*member.epochs_, *member.to_nobody_, *member.to_nobody_);
  member.runtime_.run([&] {
    node = make_memory_node(member.options_, member.runtime_, *member.fabric_, fleet, self());
  });
  if (!node) return tl::unexpected(node.error());
  member.node_ = std::move(*node);
  auto server = listen_unix(member.runtime_, socket, *member.node_);
  if (!server) return tl::unexpected(server.error());
  member.server_ = std::move(*server);
  auto client = Client::connect(
      {}, member.client_runtime_, *member.client_fabric_,
      member.fleet_for(*member.client_epochs_, *member.to_self_, *member.client_to_nobody_));
  if (!client) return tl::unexpected(client.error());
  member.client_ = std::move(*client);
  return made;
}

LoneMember::~LoneMember() {
  client_.reset();
  server_.reset();
  runtime_.run([this] { node_.reset(); });
}

Fleet LoneMember::fleet_for(EpochRegister& epochs, ControlDialer& to_self,
                            ControlDialer& to_others) const {
  Fleet fleet;
  fleet.list = {
      .number = 1, .replicas = 1, .seed = 1, .page_bytes = options_.page_bytes, .members = {}};
  fleet.epochs = &epochs;
  fleet.view_ns = options_.lease_ms * kMillisecond;
  fleet.dialer = [&to_self, &to_others](NodeId node) -> ControlDialer& {
    return node == self() ? to_self : to_others;
  };
  return fleet;
}

Epoch LoneMember::next_epoch(const Epoch& current, const std::vector<Member>& others) {
  Epoch next = current;
  ++next.number;
  std::erase_if(next.members, [](const Member& member) { return member.node != self(); });
  next.members.insert(next.members.end(), others.begin(), others.end());
  next.give_slots(current.members);
  return next;
}

Result<void> LoneMember::begin_epoch(const std::vector<Member>& others) {
  Epoch next = next_epoch(epoch(), others);
  const uint64_t number = next.number;
  if (auto replaced = register_.replace(std::move(next)); !replaced) return replaced;
  for (const Member& other : others) {
    if (auto confirmed = register_.confirm(other.node, number); !confirmed) return confirmed;
  }
  return {};
}

bool LoneMember::has_confirmed() const {
  return std::ranges::count(register_.current().confirmed, self()) > 0;
}

}  // namespace farpage
