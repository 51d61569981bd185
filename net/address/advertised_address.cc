#include "net/address/advertised_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>

#include "net/address/resolve.h"

namespace farpage {
namespace {

enum class Meaning : uint8_t { kOneHost, kThisMachine, kWildcard, kLinkLocal, kManyHosts };

constexpr std::array<std::string_view, 4> kNamesOfThisMachine = {
    "localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"};

Meaning meaning_of(uint32_t ipv4) {
  if (ipv4 >> 24 == 0) return Meaning::kWildcard;
  if (ipv4 >> 24 == 127) return Meaning::kThisMachine;
  const bool is_multicast = ipv4 >> 28 == 14;
  return is_multicast || ipv4 == INADDR_BROADCAST ? Meaning::kManyHosts : Meaning::kOneHost;
}

Meaning meaning_of(const in6_addr& ipv6) {
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
    uint32_t ipv4 = 0;
    std::memcpy(&ipv4, ipv6.s6_addr + 12, sizeof ipv4);
    return meaning_of(ntohl(ipv4));
  }
  if (IN6_IS_ADDR_UNSPECIFIED(&ipv6)) return Meaning::kWildcard;
  if (IN6_IS_ADDR_LOOPBACK(&ipv6)) return Meaning::kThisMachine;
  if (IN6_IS_ADDR_LINKLOCAL(&ipv6)) return Meaning::kLinkLocal;
  return IN6_IS_ADDR_MULTICAST(&ipv6) ? Meaning::kManyHosts : Meaning::kOneHost;
}

Meaning meaning_of_name(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with('.')) name.pop_back();
  const bool is_own = std::ranges::find(kNamesOfThisMachine, name) != kNamesOfThisMachine.end() ||
                      name.ends_with(".localhost");
  return is_own ? Meaning::kThisMachine : Meaning::kOneHost;
}

// Numbers as connect() would take them: "0" is 0.0.0.0, and "127.1" the loopback.
Meaning meaning_of_host(const std::string& host) {
  const size_t zone = host.find('%');
  const auto numbers = resolve_number({"", host.substr(0, zone), 0}, ResolveFor::kConnect);
  if (!numbers || numbers->empty()) return meaning_of_name(host);
  const sockaddr* address = numbers->front().address();
  if (address->sa_family == AF_INET) {
    return meaning_of(ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr));
  }
  const Meaning meaning = meaning_of(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  const bool has_zone = zone != std::string::npos;
  return meaning == Meaning::kLinkLocal && has_zone ? Meaning::kOneHost : meaning;
}

const char* why_not(Meaning meaning) {
  switch (meaning) {
    case Meaning::kWildcard:
      return "means all addresses of the host that reads it, and leads no other host to this node";
    case Meaning::kLinkLocal:
      return "is link-local and names no zone: it means another host on every link";
    case Meaning::kManyHosts:
      return "is not the address of a single host";
    case Meaning::kOneHost:
    case Meaning::kThisMachine:
      break;
  }
  return nullptr;
}

}  // namespace

bool is_of_one_machine(const Address& address) {
  return !address.is_tcp() || meaning_of_host(address.host) == Meaning::kThisMachine;
}

Result<void> check_advertised(const Address& address, const std::string& whose) {
  if (!address.is_tcp()) return {};
  const char* why = why_not(meaning_of_host(address.host));
  if (why == nullptr && address.port == 0) why = "names no port, and other hosts need it";
  if (why == nullptr) return {};
  return fail(Code::kInvalid,
              fmt::format("{}: {} {}; write the name or the address, and the port, at which other "
                          "hosts reach the node",
                          whose, format_address(address), why));
}

}  // namespace farpage
