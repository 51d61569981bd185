#include "control/codec.h"

#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>

#include <array>
#include <utility>

#include "control/message_fields.h"
#include "farpage_control.pb.h"

namespace farpage {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

// What a body leaves out, though it is no std::optional.
template <typename T>
bool is_absent(const T&) {
  return false;
}
bool is_absent(const FleetStatus& fleet) {
  return fleet.node == 0;
}

// From structs to their messages. Moves strings and descriptors.
class Writer {
 public:
  explicit Writer(std::vector<UniqueFd>& descriptors) : descriptors_(descriptors) {}

  template <typename Struct>
  void put(Message& to, Struct& from) {
    const auto& fields = MessageFields<Struct>::of();
    each_member(from, [&](auto index, auto& member) {
      using Member = std::remove_reference_t<decltype(member)>;
      if constexpr (kInlined<Member>) {
        put(to, member);
      } else if constexpr (!kUnsent<Member>) {
        put(to, fields.wire(), fields[index].at, member);
      }
    });
  }

 private:
  template <typename Member>
  void put(Message& to, const Reflection& wire, const FieldDescriptor* at, Member& from) {
    if constexpr (kVector<Member>) {
      for (auto& entry : from) add(to, wire, at, entry);
    } else if constexpr (kOptional<Member>) {
      if (from) put(to, wire, at, *from);
    } else if constexpr (kStruct<Member>) {
      if (!is_absent(from)) put(*wire.MutableMessage(&to, at), from);
    } else if constexpr (std::is_same_v<Member, std::string>) {
      wire.SetString(&to, at, std::move(from));
    } else if constexpr (std::is_same_v<Member, UniqueFd>) {
      wire.SetUInt32(&to, at, attach(std::move(from)));
    } else if constexpr (std::is_same_v<Member, uint64_t>) {
      wire.SetUInt64(&to, at, from);
    } else if constexpr (std::is_same_v<Member, int16_t>) {
      wire.SetInt32(&to, at, from);
    } else if constexpr (std::is_same_v<Member, bool>) {
      wire.SetBool(&to, at, from);
    } else {
      wire.SetUInt32(&to, at, static_cast<uint32_t>(from));
    }
  }

  template <typename Entry>
  void add(Message& to, const Reflection& wire, const FieldDescriptor* at, Entry& from) {
    if constexpr (kStruct<Entry>) {
      put(*wire.AddMessage(&to, at), from);
    } else {
      wire.AddUInt32(&to, at, static_cast<uint32_t>(from));
    }
  }

  uint32_t attach(UniqueFd fd) {
    if (!fd.valid()) return 0;
    descriptors_.push_back(std::move(fd));
    return static_cast<uint32_t>(descriptors_.size());
  }

  std::vector<UniqueFd>& descriptors_;
};

// From messages to their structs, as message_limits.h allows.
class Reader {
 public:
  explicit Reader(std::vector<UniqueFd>& descriptors) : descriptors_(descriptors) {}

  template <typename Struct>
  void get(const Message& from, Struct& to) {
    const auto& fields = MessageFields<Struct>::of();
    each_member(to, [&](auto index, auto& member) {
      using Member = std::remove_reference_t<decltype(member)>;
      if constexpr (kInlined<Member>) {
        get(from, member);
      } else if constexpr (kVector<Member>) {
        get_all(from, fields.wire(), fields[index].at, fields[index].most_entries, member);
      } else if constexpr (!kUnsent<Member>) {
        get(from, fields.wire(), fields[index].at, member);
      }
    });
  }

  // Which limit the message exceeds: its struct is not whole then. Empty: none.
  const std::string& excess() const { return excess_; }

 private:
  template <typename Member>
  void get(const Message& from, const Reflection& wire, const FieldDescriptor* at, Member& to) {
    if constexpr (kOptional<Member>) {
      if (wire.HasField(from, at)) get(from, wire, at, to.emplace());
    } else if constexpr (kStruct<Member>) {
      get(wire.GetMessage(from, at), to);
    } else if constexpr (std::is_same_v<Member, std::string>) {
      to = wire.GetString(from, at);
    } else if constexpr (std::is_same_v<Member, UniqueFd>) {
      to = detach(wire.GetUInt32(from, at));
    } else if constexpr (std::is_same_v<Member, uint64_t>) {
      to = wire.GetUInt64(from, at);
    } else if constexpr (std::is_same_v<Member, uint32_t>) {
      to = wire.GetUInt32(from, at);
    } else if constexpr (std::is_same_v<Member, bool>) {
      to = wire.GetBool(from, at);
    } else if constexpr (std::is_same_v<Member, int16_t>) {
      to = known(to, wire.GetInt32(from, at));
    } else {
      to = known(to, wire.GetUInt32(from, at));
    }
  }

  template <typename Entry>
  void get_all(const Message& from, const Reflection& wire, const FieldDescriptor* at, int most,
               std::vector<Entry>& to) {
    const int entries = wire.FieldSize(from, at);
    if (entries > most) {
      excess_ = fmt::format("{} has {} entries, of {} at most", at->full_name(), entries, most);
      return;
    }
    to.reserve(static_cast<size_t>(entries));
    for (int i = 0; i < entries; ++i) {
      if constexpr (kStruct<Entry>) {
        get(wire.GetRepeatedMessage(from, at, i), to.emplace_back());
      } else {
        to.push_back(known(Entry(), wire.GetRepeatedUInt32(from, at, i)));
      }
    }
  }

  UniqueFd detach(uint32_t descriptor) {
    if (descriptor == 0 || descriptor > descriptors_.size()) return UniqueFd();
    return std::move(descriptors_[descriptor - 1]);
  }

  std::vector<UniqueFd>& descriptors_;
  std::string excess_;
};

// Which message a body holds: the oneof's fields are Body's alternatives, in their order. The first
// call compares all structs with their messages.
template <typename Body>
const OneofDescriptor& kinds(const Message& envelope) {
  static const OneofDescriptor& checked = [&]() -> const OneofDescriptor& {
    const OneofDescriptor& kinds = *envelope.GetDescriptor()->FindOneofByName("body");
    FARPAGE_CHECK(kinds.field_count() == std::variant_size_v<Body>);
    each_index<std::variant_size_v<Body>>([&](auto index) {
      using Struct = std::variant_alternative_t<index, Body>;
      MessageFields<Struct>::of(kinds.field(index)->message_type());
    });
    return kinds;
  }();
  return checked;
}

// Where a message is built: a short one takes no memory from the heap, a long one few blocks.
class Room {
 public:
  template <typename Envelope>
  Envelope& make() {
    return *google::protobuf::Arena::CreateMessage<Envelope>(&arena_);
  }

 private:
  std::array<char, 2048> first_;
  google::protobuf::Arena arena_ = google::protobuf::Arena(first_.data(), first_.size());
};

template <typename Envelope, typename Body>
Frame encode(uint64_t id, Body& body) {
  Room room;
  auto& envelope = room.make<Envelope>();
  envelope.set_id(id);
  const FieldDescriptor* kind = kinds<Body>(envelope).field(static_cast<int>(body.index()));
  Message& to = *envelope.GetReflection()->MutableMessage(&envelope, kind);
  Frame frame;
  std::visit([&](auto& from) { Writer(frame.descriptors).put(to, from); }, body);
  frame.body = envelope.SerializeAsString();
  return frame;
}

tl::unexpected<Error> refuse(const std::string& why) {
  return fail(Code::kProtocol, "a control message is refused: " + why);
}

template <typename Envelope, typename Numbered, typename Body>
Result<Numbered> decode(Frame& frame, Body Numbered::*body) {
  Room room;
  auto& envelope = room.make<Envelope>();
  if (!envelope.ParseFromString(frame.body)) return refuse("it cannot be parsed");
  const Reflection& wire = *envelope.GetReflection();
  const FieldDescriptor* kind = wire.GetOneofFieldDescriptor(envelope, &kinds<Body>(envelope));
  if (kind == nullptr) return refuse("its kind is unknown");
  Numbered message;
  message.id = envelope.id();
  Reader reader(frame.descriptors);
  each_index<std::variant_size_v<Body>>([&](auto index) {
    if (kind->index_in_oneof() != static_cast<int>(index)) return;
    reader.get(wire.GetMessage(envelope, kind), (message.*body).template emplace<index>());
  });
  if (!reader.excess().empty()) return refuse(reader.excess());
  return message;
}

}  // namespace

Frame encode(NumberedRequest message) {
  return encode<wire::RequestEnvelope>(message.id, message.request);
}

Frame encode(NumberedReply message) {
  return encode<wire::ReplyEnvelope>(message.id, message.reply);
}

Result<NumberedRequest> decode_request(Frame frame) {
  return decode<wire::RequestEnvelope>(frame, &NumberedRequest::request);
}

Result<NumberedReply> decode_reply(Frame frame) {
  return decode<wire::ReplyEnvelope>(frame, &NumberedReply::reply);
}

}  // namespace farpage
