#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "control/message_limits.h"
#include "control/messages.h"
#include "control/struct_members.h"

namespace farpage {

// Members whose own members are fields of the message around them.
template <typename T>
inline constexpr bool kInlined = std::is_same_v<T, MemoryPlace> || std::is_same_v<T, PortCounts>;
// Members that are never sent.
template <typename T>
inline constexpr bool kUnsent = std::is_same_v<T, Peer>;

template <typename T>
inline constexpr bool kVector = false;
template <typename T>
inline constexpr bool kVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kOptional = false;
template <typename T>
inline constexpr bool kOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kStruct = std::is_class_v<T>&& std::is_aggregate_v<T>;

// Where each member of a struct of messages.h stands in its message of farpage_control.proto: in
// the field of its name. Making one checks that the two match, and aborts if they do not: names,
// kinds and limits are the programmer's, not the peer's.
template <typename Struct>
class MessageFields {
  using Descriptor = google::protobuf::Descriptor;
  using FieldDescriptor = google::protobuf::FieldDescriptor;
  using Reflection = google::protobuf::Reflection;

 public:
  struct Field {
    const FieldDescriptor* at = nullptr;
    int most_entries = 0;  // of a vector
  };

  explicit MessageFields(const Descriptor& message) : message_(message) {
    each_index<kMembers>([this](auto index) {
      using Member = MemberType<Struct, index>;
      if constexpr (kInlined<Member>) {
        count_ += MessageFields<Member>::of(&message_).count_;
      } else if constexpr (!kUnsent<Member>) {
        fields_[index] = find<Member>(std::string(kMemberName<Struct, index>));
        ++count_;
      }
    });
    require(kInlined<Struct> || count_ == message.field_count(), message.full_name(),
            "has no field without a member");
  }

  // The first call names the message; all of a struct are of one kind.
  static const MessageFields& of(const Descriptor* message = nullptr) {
    static const MessageFields kFields(*message);
    return kFields;
  }

  const Field& operator[](size_t member) const { return fields_[member]; }
  const Reflection& wire() const { return wire_; }

 private:
  template <typename Other>
  friend class MessageFields;

  static constexpr size_t kMembers = member_count<Struct>();

  template <typename Member>
  Field find(const std::string& name) const {
    const FieldDescriptor* at = message_.FindFieldByName(name);
    require(at != nullptr, message_.full_name() + "." + name, "stands in farpage_control.proto");
    require(at->is_repeated() == kVector<Member>, at->full_name(), "is repeated as its vector is");
    if constexpr (kVector<Member>) {
      match<typename Member::value_type>(*at);
      return {at, most_entries(*at)};
    } else if constexpr (kOptional<Member>) {
      require(at->has_presence(), at->full_name(), "is optional as its member is");
      match<typename Member::value_type>(*at);
    } else {
      require(at->has_presence() == kStruct<Member>, at->full_name(), "is there as its member is");
      match<Member>(*at);
    }
    return {at};
  }

  template <typename Value>
  static void match(const FieldDescriptor& at) {
    require(at.cpp_type() == cpp_type<Value>(), at.full_name(), "is of its member's kind");
    if constexpr (kStruct<Value>) {
      const Descriptor& message = *at.message_type();
      require(&MessageFields<Value>::of(&message).message_ == &message, at.full_name(),
              "is its struct's message");
    }
  }

  template <typename Value>
  static constexpr FieldDescriptor::CppType cpp_type() {
    if constexpr (kStruct<Value>) return FieldDescriptor::CPPTYPE_MESSAGE;
    if constexpr (std::is_same_v<Value, std::string>) return FieldDescriptor::CPPTYPE_STRING;
    if constexpr (std::is_same_v<Value, uint64_t>) return FieldDescriptor::CPPTYPE_UINT64;
    if constexpr (std::is_same_v<Value, int16_t>) return FieldDescriptor::CPPTYPE_INT32;
    if constexpr (std::is_same_v<Value, bool>) return FieldDescriptor::CPPTYPE_BOOL;
    return FieldDescriptor::CPPTYPE_UINT32;  // also of enumerations, and of a descriptor's number
  }

  static int most_entries(const FieldDescriptor& at) {
    const std::string name = at.containing_type()->name() + "." + at.name();
    const auto limit = std::ranges::find(kEntryLimits, name, &EntryLimit::field);
    require(limit != kEntryLimits.end(), name, "has a limit in message_limits.h");
    return static_cast<int>(limit->entries);
  }

  static void require(bool holds, const std::string& name, const char* what) {
    if (!holds) check_failed((name + " " + what).c_str(), __FILE__, __LINE__);
  }

  const Descriptor& message_;
  const Reflection& wire_ = *google::protobuf::MessageFactory::generated_factory()
                                 ->GetPrototype(&message_)
                                 ->GetReflection();
  std::array<Field, kMembers> fields_;
  int count_ = 0;
};

}  // namespace farpage
