#include "net/address/address.h"

#include <fmt/format.h>

#include <charconv>

namespace farpage {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
// Of names, and of addresses in numbers.
constexpr std::string_view kHostCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:%";

// Why the text is none; null: it is one.
const char* read_host_port(std::string_view text, Address& address) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) return "it has no port";
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return "an IPv6 address needs brackets";
  }
  if (host.empty()) return "it has no host";
  if (host.find_first_not_of(kHostCharacters) != std::string_view::npos) {
    return "its host is not a name";
  }
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) {
    return "its port is not a number from 0 to 65535";
  }
  address.host = host;
  return nullptr;
}

// HOST:PORT, which would be an unlikely name of a socket.
bool lacks_scheme(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != std::string_view::npos && colon + 1 < text.size() &&
         text.find('/') == std::string_view::npos &&
         text.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const auto refuse = [&](const char* why) {
    return fail(Code::kInvalid,
                fmt::format("'{}' is not an address: {}; write a socket's path, tcp://HOST:PORT or "
                            "tcp://[IPV6]:PORT",
                            text, why));
  };
  Address address;
  if (text.starts_with(kTcpScheme)) {
    const char* why = read_host_port(text.substr(kTcpScheme.size()), address);
    if (why != nullptr) return refuse(why);
    return address;
  }
  if (text.empty()) return refuse("it is empty");
  if (text.find("://") != std::string_view::npos) return refuse("its scheme is unknown");
  if (text.find('\0') != std::string_view::npos) return refuse("it holds a zero byte");
  if (lacks_scheme(text)) {
    return fail(Code::kInvalid,
                fmt::format("'{0}' is not an address: did you mean tcp://{0}? For a "
                            "socket of that name write ./{0}",
                            text));
  }
  address.path = text;
  return address;
}

std::string format_address(const Address& address) {
  if (!address.is_tcp()) return address.path;
  return std::string(kTcpScheme) + format_host_port(address);
}

Result<Address> parse_host_port(std::string_view text) {
  Address address;
  if (const char* why = read_host_port(text, address); why != nullptr) {
    return fail(Code::kInvalid, fmt::format("'{}' is not an address: {}; write HOST:PORT or "
                                            "[IPV6]:PORT, like 127.0.0.1:9464",
                                            text, why));
  }
  return address;
}

std::string format_host_port(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", address.host, address.port)
                 : fmt::format("{}:{}", address.host, address.port);
}

}  // namespace farpage
