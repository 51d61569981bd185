#pragma once

#include <boost/preprocessor/repetition/enum_params.hpp>
#include <boost/preprocessor/repetition/repeat_from_to.hpp>
#include <cstddef>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// The members of a plain struct: how many, which, and what they are called. Structs may be
// move-only; they have no base, no array and at most 40 members. (Boost.PFR does the same, but
// not for move-only structs in Boost 1.81, and Boost 1.74 lacks it.)
namespace farpage {

struct AnyValue {
  template <typename T>
  operator T() const;
};

template <typename Struct, typename... Values>
consteval size_t member_count() {
  if constexpr (!std::is_empty_v<Struct> && requires { Struct{Values{}..., AnyValue{}}; }) {
    return member_count<Struct, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

// A reference to each, in order.
template <typename Struct>
constexpr auto members(Struct& of) {
  constexpr size_t kCount = member_count<std::remove_const_t<Struct>>();
  static_assert(kCount <= 40);
#define FARPAGE_TIE_MEMBERS(z, count, name)             \
  if constexpr (kCount == (count)) {                    \
    auto& [BOOST_PP_ENUM_PARAMS(count, name)] = of;     \
    return std::tie(BOOST_PP_ENUM_PARAMS(count, name)); \
  } else
  BOOST_PP_REPEAT_FROM_TO(1, 41, FARPAGE_TIE_MEMBERS, member) {
    return std::tuple<>();
  }
#undef FARPAGE_TIE_MEMBERS
}

// visit(index) for 0 to kCount - 1, each a std::integral_constant.
template <size_t kCount, typename Visit>
constexpr void each_index(Visit visit) {
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (visit(std::integral_constant<size_t, kIndex>()), ...);
  }
  (std::make_index_sequence<kCount>());
}

// visit(index, member)
template <typename Struct, typename Visit>
constexpr void each_member(Struct& of, Visit visit) {
  const auto all = members(of);
  each_index<std::tuple_size_v<decltype(all)>>(
      [&](auto index) { visit(index, std::get<index>(all)); });
}

template <typename Struct, size_t kIndex>
using MemberType = std::remove_reference_t<
    std::tuple_element_t<kIndex, decltype(members(std::declval<Struct&>()))>>;

// A compiler writes a function's template arguments into __PRETTY_FUNCTION__, so the address of a
// member yields its name.
template <typename Struct>
union Nowhere {
  constexpr Nowhere() : nothing() {}
  constexpr ~Nowhere() {}
  char nothing;
  Struct value;  // never made
};
template <typename Struct>
inline constinit Nowhere<Struct> nowhere = {};

template <typename Pointer>
struct MemberAddress {
  Pointer pointer;
};

template <typename Pointer>
MemberAddress(Pointer) -> MemberAddress<Pointer>;

template <MemberAddress kAddress>
consteval std::string_view name_behind() {
  const std::string_view text = __PRETTY_FUNCTION__;  // "… ::name)}; …" or "… .name}]"
  const auto in_a_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  size_t end = text.rfind('}');
  while (!in_a_name(text[end - 1])) --end;
  size_t begin = end;
  while (in_a_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

template <typename Struct, size_t kIndex>
inline constexpr std::string_view kMemberName =
    name_behind<MemberAddress{std::addressof(std::get<kIndex>(members(nowhere<Struct>.value)))}>();

}  // namespace farpage
