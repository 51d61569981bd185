#include "net/address/resolve.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>

#include "base/clock.h"

namespace farpage {
namespace {

constexpr uint64_t kLongestWaitNs = 600 * kSecond;

struct Answer {
  int error = 0;
  std::vector<Endpoint> endpoints;
};

Answer ask(const std::string& host, const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  Answer answer;
  answer.error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (answer.error != 0) return answer;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Endpoint& endpoint = answer.endpoints.emplace_back();
    std::memcpy(&endpoint.storage, each->ai_addr, each->ai_addrlen);
    endpoint.bytes = each->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return answer;
}

int flags_for(ResolveFor purpose) {
  return purpose == ResolveFor::kListen ? AI_PASSIVE : 0;
}

}  // namespace

std::string Endpoint::host() const {
  std::array<char, NI_MAXHOST> text = {};
  ::getnameinfo(address(), bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

uint16_t Endpoint::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::optional<std::vector<Endpoint>> resolve_number(const Address& address, ResolveFor purpose) {
  Answer answer =
      ask(address.host, std::to_string(address.port), flags_for(purpose) | AI_NUMERICHOST);
  if (answer.error != 0) return std::nullopt;
  return std::move(answer.endpoints);
}

Result<std::vector<Endpoint>> resolve(const Address& address, ResolveFor purpose,
                                      uint64_t deadline_ns) {
  if (auto endpoints = resolve_number(address, purpose)) return std::move(*endpoints);
  const std::string port = std::to_string(address.port);
  const int flags = flags_for(purpose);
  const auto late = [&] {
    return fail(Code::kTimeout, fmt::format("the name '{}' was not resolved in time: check "
                                            "/etc/resolv.conf, or give the address in numbers",
                                            address.host));
  };
  const uint64_t now = boottime_clock().now_ns();
  if (now >= deadline_ns) return late();
  // The resolver cannot be told to stop: a detached thread asks it.
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> future = promise->get_future();
  try {
    std::thread([promise, host = address.host, port, flags] {
      promise->set_value(ask(host, port, flags));
    }).detach();
  } catch (const std::system_error& error) {
    return fail(Code::kExhausted,
                fmt::format("cannot look up the name '{}': {}", address.host, error.what()));
  }
  const std::chrono::nanoseconds left(std::min(deadline_ns - now, kLongestWaitNs));
  if (future.wait_for(left) != std::future_status::ready) return late();
  Answer answer = future.get();
  if (answer.error != 0) {
    return fail(Code::kUnavailable,
                fmt::format("the name '{}' does not resolve ({}): check the spelling, or "
                            "give the address in numbers",
                            address.host, ::gai_strerror(answer.error)));
  }
  return std::move(answer.endpoints);
}

}  // namespace farpage
