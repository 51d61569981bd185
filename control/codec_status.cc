#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "control/codec_fields.h"
#include "control/status/status_table.h"

namespace farpage {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor& field(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  FARPAGE_CHECK(field != nullptr);
  return *field;
}

template <typename Record>
void put_figures(Message& to, const Record& from) {
  for (const Figure<Record>& figure : figures(from)) {
    const std::optional<uint64_t> number = from.*figure.member;
    if (number) to.GetReflection()->SetUInt64(&to, &field(to, figure.name), *number);
  }
}

template <typename Record>
void get_figures(const Message& from, Record& to) {
  for (const Figure<Record>& figure : figures(to)) {
    const FieldDescriptor& at = field(from, figure.name);
    if (at.has_presence() && !from.GetReflection()->HasField(from, &at)) continue;
    to.*figure.member = from.GetReflection()->GetUInt64(from, &at);
  }
}

void put(wire::FleetStatus& to, const FleetStatus& from) {
  to.set_node(from.node);
  for (const MemberStatus& member : from.others) {
    auto& added = *to.add_others();
    added.set_node(member.node);
    added.set_reached(member.reached);
  }
  put_figures(to, from);
}

}  // namespace

void put(wire::VerdictCounts& to, const VerdictCounts& from) {
  put_figures(to, from);
}

VerdictCounts get(const wire::VerdictCounts& from) {
  VerdictCounts to;
  get_figures(from, to);
  return to;
}

void put(wire::StatusReply& to, StatusReply&& from) {
  to.set_backend(std::move(from.backend));
  to.set_path(std::move(from.path));
  to.set_incarnation(from.incarnation);
  to.set_sees_traffic(from.sees_traffic);
  put_figures(to, from);
  put_figures(*to.mutable_verdicts(), from.verdicts);
  put_figures(*to.mutable_pushes(), from.pushes);
  put_figures(*to.mutable_scrubs(), from.scrubs);
  put_figures(*to.mutable_budget(), from.budget);
  if (from.fleet.node != 0) put(*to.mutable_fleet(), from.fleet);
  for (PathTraffic& path : from.traffic) {
    auto& added = *to.add_traffic();
    added.set_path(std::move(path.path));
    put_figures(added, path);
  }
  for (PortTraffic& port : from.ports) {
    auto& added = *to.add_ports();
    added.set_port(std::move(port.port));
    put_figures(added, port);
    put_figures(added, port.counts);
  }
  for (TenantStatus& tenant : from.tenants) {
    auto& added = *to.add_tenants();
    added.set_name(std::move(tenant.name));
    put_figures(added, tenant);
    put_figures(*added.mutable_budget(), tenant.budget);
  }
}

StatusReply get(const wire::StatusReply& from) {
  StatusReply to;
  to.backend = from.backend();
  to.path = from.path();
  to.incarnation = from.incarnation();
  to.sees_traffic = from.sees_traffic();
  get_figures(from, to);
  get_figures(from.verdicts(), to.verdicts);
  get_figures(from.pushes(), to.pushes);
  get_figures(from.scrubs(), to.scrubs);
  get_figures(from.budget(), to.budget);
  to.fleet.node = from.fleet().node();
  get_figures(from.fleet(), to.fleet);
  for (const auto& member : from.fleet().others()) {
    to.fleet.others.push_back({member.node(), member.reached()});
  }
  for (const auto& path : from.traffic()) {
    get_figures(path, to.traffic.emplace_back(PathTraffic{.path = path.path()}));
  }
  for (const auto& port : from.ports()) {
    PortTraffic& added = to.ports.emplace_back(PortTraffic{.port = port.port()});
    get_figures(port, added);
    get_figures(port, added.counts);
  }
  for (const auto& tenant : from.tenants()) {
    TenantStatus& added = to.tenants.emplace_back(TenantStatus{.name = tenant.name()});
    get_figures(tenant, added);
    get_figures(tenant.budget(), added.budget);
  }
  return to;
}

}  // namespace farpage
