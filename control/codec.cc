#include "control/codec.h"

#include <utility>

#include "control/codec_fields.h"

namespace farpage {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

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
            to.set_node(from.node);
            to.set_incarnation(from.incarnation);
            put(*to.mutable_epoch(), from.epoch);
            to.set_known_epoch(from.known_epoch);
            to.set_known_incarnation(from.known_incarnation);
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
            put(*to.mutable_epoch(), from.epoch);
          },
          [&](RemoveRequest& from) {
            auto& to = *envelope.mutable_remove();
            for (const PageKey& key : from.keys) put(*to.add_keys(), key);
            put(*to.mutable_epoch(), from.epoch);
            to.set_patience_ns(from.patience_ns);
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
          [&](ReplicateRequest& from) {
            auto& to = *envelope.mutable_replicate();
            put(*to.mutable_epoch(), from.epoch);
            to.set_patience_ns(from.patience_ns);
            for (const ReplicaPage& page : from.pages) {
              auto& added = *to.add_pages();
              put(*added.mutable_page(), page.page);
              added.set_removed(page.removed);
            }
          },
          [&](HoldingsRequest& from) {
            auto& to = *envelope.mutable_holdings();
            put(*to.mutable_epoch(), from.epoch);
            for (const PageKey& key : from.keys) put(*to.add_keys(), key);
            to.set_cursor(from.cursor);
          },
          [&](ReportRequest& from) {
            auto& to = *envelope.mutable_report();
            for (const PageKey& key : from.keys) put(*to.add_keys(), key);
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
            put(*to.mutable_epoch(), from.epoch);
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
            to.set_node(from.node);
            put(*to.mutable_membership(), from.membership);
            to.set_newest_epoch(from.newest_epoch);
            to.set_slot_layout(from.slot_layout);
          },
          [&](OpenLaneReply& from) {
            auto& to = *envelope.mutable_open_lane();
            to.set_lane(from.lane);
            put(*to.mutable_read_offer(), std::move(from.read_offer), fds);
            put(*to.mutable_pool(), std::move(from.pool), fds);
            put(*to.mutable_index(), std::move(from.index), fds);
            if (from.headers) put(*to.mutable_headers(), std::move(*from.headers), fds);
          },
          [&](CommitReply& from) {
            auto& to = *envelope.mutable_commit();
            for (const CommitResult& result : from.results) {
              auto& added = *to.add_results();
              added.set_code(static_cast<uint32_t>(result.code));
              added.set_version(result.version);
            }
            to.set_why(std::move(from.why));
          },
          [&](RemoveReply& from) { envelope.mutable_remove()->set_removed(from.removed); },
          [&](RenewReply& from) { envelope.mutable_renew()->set_incarnation(from.incarnation); },
          [&](StatusReply& from) { put(*envelope.mutable_status(), std::move(from)); },
          [&](OpenPushReply& from) { envelope.mutable_open_push()->set_lane(from.lane); },
          [&](PushReply& from) {
            auto& to = *envelope.mutable_push();
            for (const Code code : from.codes) to.add_codes(static_cast<uint32_t>(code));
          },
          [&](ReplicateReply& from) {
            auto& to = *envelope.mutable_replicate();
            for (const Code code : from.codes) to.add_codes(static_cast<uint32_t>(code));
          },
          [&](HoldingsReply& from) {
            auto& to = *envelope.mutable_holdings();
            for (const HeldPage& page : from.pages) put(*to.add_pages(), page);
            to.set_next(from.next);
          },
          [&](ReportReply& from) {
            auto& to = *envelope.mutable_report();
            to.set_dropped(from.dropped);
            to.set_newest_epoch(from.newest_epoch);
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
      message.request = HelloRequest{
          from.protocol(),    from.page_format(), from.staging_bytes(), from.node(),
          from.incarnation(), get(from.epoch()),  from.known_epoch(),   from.known_incarnation()};
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
      to.epoch = get(from.epoch());
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::kRemove: {
      const auto& from = envelope.remove();
      if (from.keys_size() > static_cast<int>(kMaxRemoveKeys)) return refuse("too many keys");
      RemoveRequest to;
      for (const auto& key : from.keys()) to.keys.push_back(get(key));
      to.epoch = get(from.epoch());
      to.patience_ns = from.patience_ns();
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
    case wire::RequestEnvelope::kReplicate: {
      const auto& from = envelope.replicate();
      if (from.pages_size() > static_cast<int>(kMaxReplicaPages)) return refuse("too many pages");
      ReplicateRequest to = {get(from.epoch()), {}, from.patience_ns()};
      for (const auto& page : from.pages()) {
        to.pages.push_back({get(page.page()), page.removed()});
      }
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::kHoldings: {
      const auto& from = envelope.holdings();
      if (from.keys_size() > static_cast<int>(kMaxReplicaPages)) return refuse("too many keys");
      HoldingsRequest to = {get(from.epoch()), {}, from.cursor()};
      for (const auto& key : from.keys()) to.keys.push_back(get(key));
      message.request = std::move(to);
      return message;
    }
    case wire::RequestEnvelope::kReport: {
      const auto& from = envelope.report();
      if (from.keys_size() > static_cast<int>(kMaxReplicaPages)) return refuse("too many keys");
      ReportRequest to;
      for (const auto& key : from.keys()) to.keys.push_back(get(key));
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
      message.reply = Refusal{to_code(envelope.refusal().code()), envelope.refusal().message(),
                              get(envelope.refusal().epoch())};
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
      to.node = from.node();
      to.membership = get(from.membership());
      to.newest_epoch = from.newest_epoch();
      to.slot_layout = from.slot_layout();
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kOpenLane: {
      const auto& from = envelope.open_lane();
      OpenLaneReply to;
      to.lane = from.lane();
      to.read_offer = get(from.read_offer(), fds);
      to.pool = get(from.pool(), fds);
      to.index = get(from.index(), fds);
      if (from.has_headers()) to.headers = get(from.headers(), fds);
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
      to.why = from.why();
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
      if (from.fleet().others_size() > static_cast<int>(kMaxFleetMembers)) {
        return refuse("too many members");
      }
      if (from.tenants_size() > static_cast<int>(kMaxTenants)) return refuse("too many tenants");
      message.reply = get(from);
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
    case wire::ReplyEnvelope::kReplicate: {
      const auto& from = envelope.replicate();
      if (from.codes_size() > static_cast<int>(kMaxReplicaPages)) return refuse("too many codes");
      ReplicateReply to;
      for (const uint32_t code : from.codes()) to.codes.push_back(to_code(code));
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kHoldings: {
      const auto& from = envelope.holdings();
      if (from.pages_size() > static_cast<int>(kMaxReplicaPages)) return refuse("too many pages");
      HoldingsReply to = {{}, from.next()};
      for (const auto& page : from.pages()) to.pages.push_back(get(page));
      message.reply = std::move(to);
      return message;
    }
    case wire::ReplyEnvelope::kReport:
      message.reply = ReportReply{envelope.report().dropped(), envelope.report().newest_epoch()};
      return message;
    case wire::ReplyEnvelope::BODY_NOT_SET:
      break;
  }
  return refuse("its kind is unknown");
}

}  // namespace farpage
