#include "control/codec.h"

#include <utility>

#include "control.pb.h"

namespace farpage {
namespace {

constexpr uint32_t kLastCode = static_cast<uint32_t>(Code::kSystem);

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

Code to_code(uint32_t code) {
  return code <= kLastCode ? static_cast<Code>(code) : Code::kProtocol;
}

uint32_t attach(UniqueFd fd, std::vector<UniqueFd>& descriptors) {
  if (!fd.valid()) return 0;
  descriptors.push_back(std::move(fd));
  return static_cast<uint32_t>(descriptors.size());
}

UniqueFd detach(uint32_t descriptor, std::vector<UniqueFd>& descriptors) {
  if (descriptor == 0 || descriptor > descriptors.size()) return UniqueFd();
  return std::move(descriptors[descriptor - 1]);
}

void put(wire::Key& to, const PageKey& from) {
  to.set_low(from.low);
  to.set_high(from.high);
}

PageKey get(const wire::Key& from) {
  return {from.low(), from.high()};
}

void put(wire::Region& to, RegionExport&& from, std::vector<UniqueFd>& descriptors) {
  to.set_bytes(from.bytes);
  to.set_access(static_cast<uint32_t>(from.access));
  to.set_kind(static_cast<uint32_t>(from.kind));
  to.set_device(from.device);
  to.set_opaque(std::move(from.opaque));
  to.set_fd_index(attach(std::move(from.fd), descriptors));
}

RegionExport get(const wire::Region& from, std::vector<UniqueFd>& descriptors) {
  RegionExport to;
  to.bytes = from.bytes();
  to.access = from.access() == static_cast<uint32_t>(Access::kRemoteWrite) ? Access::kRemoteWrite
                                                                           : Access::kRemoteRead;
  to.kind = from.kind() == static_cast<uint32_t>(MemoryKind::kCuda) ? MemoryKind::kCuda
                                                                    : MemoryKind::kHost;
  to.device = from.device();
  to.opaque = from.opaque();
  to.fd = detach(from.fd_index(), descriptors);
  return to;
}

void put(wire::Offer& to, ChannelOffer&& from, std::vector<UniqueFd>& descriptors) {
  to.set_purpose(static_cast<uint32_t>(from.purpose));
  to.set_opaque(std::move(from.opaque));
  to.set_fd_index(attach(std::move(from.fd), descriptors));
}

ChannelOffer get(const wire::Offer& from, std::vector<UniqueFd>& descriptors) {
  ChannelOffer to;
  to.purpose = from.purpose() == static_cast<uint32_t>(ChannelPurpose::kStage)
                   ? ChannelPurpose::kStage
                   : ChannelPurpose::kRead;
  to.opaque = from.opaque();
  to.fd = detach(from.fd_index(), descriptors);
  return to;
}

void put(wire::VerdictCounts& to, const VerdictCounts& from) {
  to.set_fetches(from.fetches);
  to.set_ready(from.ready);
  to.set_ready_bytes(from.ready_bytes);
  to.set_miss(from.miss);
  to.set_stale(from.stale);
  to.set_corrupt(from.corrupt);
  to.set_stalled(from.stalled);
  to.set_unreachable(from.unreachable);
}

VerdictCounts get(const wire::VerdictCounts& from) {
  return {from.fetches(), from.ready(),   from.ready_bytes(), from.miss(),
          from.stale(),   from.corrupt(), from.stalled(),     from.unreachable()};
}

void put(wire::PathTraffic& to, PathTraffic&& from) {
  to.set_path(std::move(from.path));
  to.set_connections(from.connections);
  to.set_reads(from.reads);
  to.set_read_bytes(from.read_bytes);
  to.set_writes(from.writes);
  to.set_write_bytes(from.write_bytes);
  to.set_refused(from.refused);
}

PathTraffic get(const wire::PathTraffic& from) {
  return {from.path(),   from.connections(), from.reads(),  from.read_bytes(),
          from.writes(), from.write_bytes(), from.refused()};
}

void put(wire::PortTraffic& to, PortTraffic&& from) {
  to.set_port(std::move(from.port));
  to.set_link_bits_per_s(from.link_bits_per_s);
  to.set_connections(from.connections);
  to.set_refused(from.refused);
  to.set_immediates(from.immediates);
  const PortCounts& counts = from.counts;
  if (counts.sent_bytes) to.set_sent_bytes(*counts.sent_bytes);
  if (counts.received_bytes) to.set_received_bytes(*counts.received_bytes);
  if (counts.sent_packets) to.set_sent_packets(*counts.sent_packets);
  if (counts.received_packets) to.set_received_packets(*counts.received_packets);
}

PortTraffic get(const wire::PortTraffic& from) {
  PortTraffic to = {from.port(),    from.link_bits_per_s(), from.connections(),
                    from.refused(), from.immediates(),      {}};
  if (from.has_sent_bytes()) to.counts.sent_bytes = from.sent_bytes();
  if (from.has_received_bytes()) to.counts.received_bytes = from.received_bytes();
  if (from.has_sent_packets()) to.counts.sent_packets = from.sent_packets();
  if (from.has_received_packets()) to.counts.received_packets = from.received_packets();
  return to;
}

tl::unexpected<Error> refuse(const char* why) {
  return fail(Code::kProtocol, std::string("a control message is refused: ") + why);
}

}  // namespace

Frame encode(NumberedRequest message) {
  Frame frame;
  auto& fds = frame.descriptors;
  wire::RequestEnvelope envelope;
  envelope.set_id(message.id);
  std::visit(
      Overloaded{
          [&](HelloRequest& from) {
            auto& to = *envelope.mutable_hello();
            to.set_protocol(from.protocol);
            to.set_page_format(from.page_format);
            to.set_staging_bytes(from.staging_bytes);
          },
          [&](OpenLaneRequest& from) { envelope.mutable_open_lane()->set_replaces(from.replaces); },
          [&](CommitRequest& from) {
            auto& to = *envelope.mutable_commit();
            to.set_immediate(from.immediate);
            to.set_patience_ns(from.patience_ns);
            for (const CommitPage& page : from.pages) {
              auto& added = *to.add_pages();
              put(*added.mutable_key(), page.key);
              added.set_staging_offset(page.staging_offset);
              added.set_payload_bytes(page.payload_bytes);
              added.set_payload_crc(page.payload_crc);
            }
          },
          [&](RemoveRequest& from) {
            auto& to = *envelope.mutable_remove();
            for (const PageKey& key : from.keys) put(*to.add_keys(), key);
          },
          [&](RenewRequest& from) {
            auto& to = *envelope.mutable_renew();
            to.set_incarnation(from.incarnation);
            put(*to.mutable_verdicts(), from.verdicts);
          },
          [&](StatusRequest&) { envelope.mutable_status(); },
          [&](OpenPushRequest& from) {
            auto& to = *envelope.mutable_open_push();
            to.set_replaces(from.replaces);
            put(*to.mutable_offer(), std::move(from.offer), fds);
            put(*to.mutable_landing(), std::move(from.landing), fds);
          },
          [&](PushRequest& from) {
            auto& to = *envelope.mutable_push();
            to.set_lane(from.lane);
            to.set_immediate(from.immediate);
            to.set_group_pages(from.group_pages);
            to.set_patience_ns(from.patience_ns);
            for (const PushPage& page : from.pages) {
              auto& added = *to.add_pages();
              put(*added.mutable_key(), page.key);
              added.set_place(page.place);
            }
          },
      },
      message.request);
  frame.body = envelope.SerializeAsString();
  return frame;
}

Frame encode(NumberedReply message) {
  Frame frame;
  auto& fds = frame.descriptors;
  wire::ReplyEnvelope envelope;
  envelope.set_id(message.id);
  std::visit(
      Overloaded{
          [&](Refusal& from) {
            auto& to = *envelope.mutable_refusal();
            to.set_code(static_cast<uint32_t>(from.code));
            to.set_message(std::move(from.message));
          },
          [&](HelloReply& from) {
            auto& to = *envelope.mutable_hello();
            to.set_protocol(from.protocol);
            to.set_epoch(from.epoch);
            to.set_incarnation(from.incarnation);
            to.set_reuse_ns(from.reuse_ns);
            to.set_lease_ns(from.lease_ns);
            to.set_page_bytes(from.page_bytes);
            to.set_slots(from.slots);
            to.set_buckets(from.buckets);
            put(*to.mutable_staging_offer(), std::move(from.staging_offer), fds);
            put(*to.mutable_staging(), std::move(from.staging), fds);
            to.set_backend(std::move(from.backend));
          },
          [&](OpenLaneReply& from) {
            auto& to = *envelope.mutable_open_lane();
            to.set_lane(from.lane);
            put(*to.mutable_read_offer(), std::move(from.read_offer), fds);
            put(*to.mutable_touch_offer(), std::move(from.touch_offer), fds);
            put(*to.mutable_pool(), std::move(from.pool), fds);
            put(*to.mutable_index(), std::move(from.index), fds);
            put(*to.mutable_touches(), std::move(from.touches), fds);
          },
          [&](CommitReply& from) {
            auto& to = *envelope.mutable_commit();
            for (const CommitResult& result : from.results) {
              auto& added = *to.add_results();
              added.set_code(static_cast<uint32_t>(result.code));
              added.set_version(result.version);
            }
          },
          [&](RemoveReply& from) { envelope.mutable_remove()->set_removed(from.removed); },
          [&](RenewReply& from) { envelope.mutable_renew()->set_incarnation(from.incarnation); },
          [&](StatusReply& from) {
            auto& to = *envelope.mutable_status();
            to.set_backend(std::move(from.backend));
            to.set_path(std::move(from.path));
            to.set_epoch(from.epoch);
            to.set_incarnation(from.incarnation);
            to.set_uptime_ns(from.uptime_ns);
            to.set_cpu_ns(from.cpu_ns);
            to.set_page_bytes(from.page_bytes);
            to.set_slots(from.slots);
            to.set_slots_live(from.slots_live);
            to.set_slots_free(from.slots_free);
            to.set_slots_cooling(from.slots_cooling);
            to.set_clients(from.clients);
            to.set_puts(from.puts);
            to.set_put_bytes(from.put_bytes);
            to.set_puts_refused(from.puts_refused);
            to.set_removes(from.removes);
            to.set_evictions(from.evictions);
            to.set_renewals(from.renewals);
            put(*to.mutable_verdicts(), from.verdicts);
            to.set_sees_traffic(from.sees_traffic);
            for (PathTraffic& path : from.traffic) put(*to.add_traffic(), std::move(path));
            for (PortTraffic& port : from.ports) put(*to.add_ports(), std::move(port));
          },
          [&](OpenPushReply& from) { envelope.mutable_open_push()->set_lane(from.lane); },
          [&](PushReply& from) {
            auto& to = *envelope.mutable_push();
            for (const Code code : from.codes) to.add_codes(static_cast<uint32_t>(code));
          },
      },
      message.reply);
  frame.body = envelope.SerializeAsString();
  return frame;
}

Result<NumberedRequest> decode_request(Frame frame) {
  wire::RequestEnvelope envelope;
  if (!envelope.ParseFromString(frame.body)) return refuse("it is no request");
  auto& fds = frame.descriptors;
  NumberedRequest message;
  message.id = envelope.id();
  switch (envelope.body_case()) {
    case wire::RequestEnvelope::kHello: {
      const auto& from = envelope.hello();
      message.request = HelloRequest{from.protocol(), from.page_format(), from.staging_bytes()};
      return message;
    }
    case wire::RequestEnvelope::kOpenLane:
      message.request = OpenLaneRequest{envelope.open_lane().replaces()};
      return message;
    case wire::RequestEnvelope::kCommit: {
      const auto& from = envelope.commit();
      if (from.pages_size() > static_cast<int>(kMaxCommitPages)) return refuse("too many pages");
      CommitRequest to;
      to.immediate = from.immediate();
      to.patience_ns = from.patience_ns();
      for (const auto& page : from.pages()) {
        to.pages.push_back(
            {get(page.key()), page.staging_offset(), page.payload_bytes(), page.payload_crc()});
      }
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::kRemove: {
      const auto& from = envelope.remove();
      if (from.keys_size() > static_cast<int>(kMaxRemoveKeys)) return refuse("too many keys");
      RemoveRequest to;
      for (const auto& key : from.keys()) to.keys.push_back(get(key));
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::kRenew:
      message.request =
          RenewRequest{envelope.renew().incarnation(), get(envelope.renew().verdicts())};
      return message;
    case wire::RequestEnvelope::kStatus:
      message.request = StatusRequest{};
      return message;
    case wire::RequestEnvelope::kOpenPush: {
      const auto& from = envelope.open_push();
      OpenPushRequest to;
      to.replaces = from.replaces();
      to.offer = get(from.offer(), fds);
      to.landing = get(from.landing(), fds);
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::kPush: {
      const auto& from = envelope.push();
      if (from.pages_size() > static_cast<int>(kMaxPushPages)) return refuse("too many pages");
      PushRequest to = {from.lane(), from.immediate(), from.group_pages(), from.patience_ns(), {}};
      to.pages.reserve(static_cast<size_t>(from.pages_size()));
      for (const auto& page : from.pages()) to.pages.push_back({get(page.key()), page.place()});
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::BODY_NOT_SET:
      break;
  }
  return refuse("its kind is unknown");
}

Result<NumberedReply> decode_reply(Frame frame) {
  wire::ReplyEnvelope envelope;
  if (!envelope.ParseFromString(frame.body)) return refuse("it is no reply");
  auto& fds = frame.descriptors;
  NumberedReply message;
  message.id = envelope.id();
  switch (envelope.body_case()) {
    case wire::ReplyEnvelope::kRefusal:
      message.reply = Refusal{to_code(envelope.refusal().code()), envelope.refusal().message()};
      return message;
    case wire::ReplyEnvelope::kHello: {
      const auto& from = envelope.hello();
      HelloReply to;
      to.protocol = from.protocol();
      to.epoch = from.epoch();
      to.incarnation = from.incarnation();
      to.reuse_ns = from.reuse_ns();
      to.lease_ns = from.lease_ns();
      to.page_bytes = from.page_bytes();
      to.slots = from.slots();
      to.buckets = from.buckets();
      to.staging_offer = get(from.staging_offer(), fds);
      to.staging = get(from.staging(), fds);
      to.backend = from.backend();
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kOpenLane: {
      const auto& from = envelope.open_lane();
      OpenLaneReply to;
      to.lane = from.lane();
      to.read_offer = get(from.read_offer(), fds);
      to.touch_offer = get(from.touch_offer(), fds);
      to.pool = get(from.pool(), fds);
      to.index = get(from.index(), fds);
      to.touches = get(from.touches(), fds);
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kCommit: {
      const auto& from = envelope.commit();
      if (from.results_size() > static_cast<int>(kMaxCommitPages))
        return refuse("too many results");
      CommitReply to;
      for (const auto& result : from.results()) {
        to.results.push_back({to_code(result.code()), result.version()});
      }
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kRemove:
      message.reply = RemoveReply{envelope.remove().removed()};
      return message;
    case wire::ReplyEnvelope::kRenew:
      message.reply = RenewReply{envelope.renew().incarnation()};
      return message;
    case wire::ReplyEnvelope::kStatus: {
      const auto& from = envelope.status();
      if (from.traffic_size() > static_cast<int>(kMaxTrafficPaths) ||
          from.ports_size() > static_cast<int>(kMaxTrafficPaths)) {
        return refuse("too many paths");
      }
      StatusReply to;
      to.backend = from.backend();
      to.path = from.path();
      to.epoch = from.epoch();
      to.incarnation = from.incarnation();
      to.uptime_ns = from.uptime_ns();
      to.cpu_ns = from.cpu_ns();
      to.page_bytes = from.page_bytes();
      to.slots = from.slots();
      to.slots_live = from.slots_live();
      to.slots_free = from.slots_free();
      to.slots_cooling = from.slots_cooling();
      to.clients = from.clients();
      to.puts = from.puts();
      to.put_bytes = from.put_bytes();
      to.puts_refused = from.puts_refused();
      to.removes = from.removes();
      to.evictions = from.evictions();
      to.renewals = from.renewals();
      to.verdicts = get(from.verdicts());
      to.sees_traffic = from.sees_traffic();
      for (const auto& path : from.traffic()) to.traffic.push_back(get(path));
      for (const auto& port : from.ports()) to.ports.push_back(get(port));
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kOpenPush:
      message.reply = OpenPushReply{envelope.open_push().lane()};
      return message;
    case wire::ReplyEnvelope::kPush: {
      const auto& from = envelope.push();
      if (from.codes_size() > static_cast<int>(kMaxPushPages)) return refuse("too many codes");
      PushReply to;
      to.codes.reserve(static_cast<size_t>(from.codes_size()));
      for (const uint32_t code : from.codes()) to.codes.push_back(to_code(code));
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::BODY_NOT_SET:
      break;
  }
  return refuse("its kind is unknown");
}

}  // namespace farpage
