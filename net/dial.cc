#include "net/dial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "net/address/resolve.h"
#include "net/connect.h"

namespace farpage {
namespace {

constexpr std::string_view kNode = "memory node";

Result<UniqueFd> connect_to(const Endpoint& endpoint, uint64_t deadline_ns) {
  auto fd = begin_connect(endpoint);
  if (!fd) return fd;
  if (!wait_for(fd->get(), POLLOUT, deadline_ns)) {
    return fail(Code::kTimeout, "no answer in time");
  }
  if (auto connected = end_connect(fd->get()); !connected) {
    return tl::unexpected(connected.error());
  }
  return fd;
}

Error no_answer(const PeerWords& peer, const std::string& where, const Error& last) {
  return {last.code,
          fmt::format("no {} answers at {} ({}): {}", peer.kind, where, last.message, peer.advice)};
}

// The first of them that answers. None takes the time of those behind it.
Result<UniqueFd> connect_to_any(const std::vector<Endpoint>& endpoints, const PeerWords& peer,
                                const std::string& where, uint64_t deadline_ns) {
  Error last = {Code::kUnavailable, "no address"};
  for (size_t i = 0; i < endpoints.size(); ++i) {
    auto fd = connect_to(endpoints[i], share_of_deadline(boottime_clock().now_ns(), deadline_ns,
                                                         endpoints.size() - i));
    if (fd || fd.error().code == Code::kExhausted) return fd;
    last = fd.error();
  }
  return tl::unexpected(no_answer(peer, where, last));
}

// `name`: whom the certificate must show; empty: the address's host. No context: no TLS.
Result<std::unique_ptr<Stream>> begin_tls(const std::shared_ptr<TlsContext>& context, UniqueFd fd,
                                          const PeerWords& peer, const Address& address,
                                          const std::string& name, uint64_t deadline_ns) {
  if (context == nullptr) return std::make_unique<PlainStream>(std::move(fd));
  auto stream = TlsStream::connect(*context, std::move(fd), name.empty() ? address.host : name);
  if (!stream) return tl::unexpected(stream.error());
  while (true) {
    const Transfer step = (*stream)->handshake();
    if (step.state == StreamState::kMoved) return std::move(*stream);
    if (step.state == StreamState::kEnded && step.error != EPROTO) {
      return fail(Code::kUnavailable,
                  fmt::format("the {} at {} closed the connection during the TLS handshake ({}); "
                              "does it speak TLS?",
                              peer.kind, format_address(address), (*stream)->failure()));
    }
    if (step.state == StreamState::kEnded) {
      return fail(
          Code::kDenied,
          fmt::format("no TLS with the {} at {}: {}; {}", peer.kind, format_address(address),
                      (*stream)->failure(),
                      (*stream)->advice(peer.kind == kNode ? "node" : peer.kind, peer.table)));
    }
    if (!wait_for((*stream)->fd(), step.events, deadline_ns)) {
      return fail(Code::kTimeout,
                  fmt::format("the {} at {} did not finish the TLS handshake in time; is it "
                              "stopped?",
                              peer.kind, format_address(address)));
    }
  }
}

std::string advice_about(const std::string& node) {
  return fmt::format("start one with 'farpage node --listen {}', and check routes and firewalls",
                     node);
}

}  // namespace

Result<std::unique_ptr<Stream>> connect_stream(const Address& address,
                                               const std::shared_ptr<TlsContext>& tls,
                                               const PeerWords& peer, uint64_t deadline_ns,
                                               const std::string& name) {
  auto endpoints = resolve(address, ResolveFor::kConnect, deadline_ns);
  if (!endpoints) return tl::unexpected(endpoints.error());
  auto fd = connect_to_any(*endpoints, peer, format_address(address), deadline_ns);
  if (!fd) return tl::unexpected(fd.error());
  return begin_tls(tls, std::move(*fd), peer, address, name, deadline_ns);
}

Result<std::unique_ptr<Stream>> dial(const Address& address, const ClientCredentials& credentials,
                                     const Introduction& introduction, uint64_t deadline_ns,
                                     const std::string& name) {
  auto endpoints = resolve(address, ResolveFor::kConnect, deadline_ns);
  if (!endpoints) return tl::unexpected(endpoints.error());
  const std::string node = format_address(address);
  auto fd = connect_to_any(*endpoints, {kNode, advice_about(node)}, node, deadline_ns);
  if (!fd) return tl::unexpected(fd.error());
  return greet(std::move(*fd), address, credentials, introduction, deadline_ns, name);
}

Error no_node_answers(const Address& address, const Error& last) {
  const std::string node = format_address(address);
  return no_answer({kNode, advice_about(node)}, node, last);
}

Result<std::unique_ptr<Stream>> greet(UniqueFd fd, const Address& address,
                                      const ClientCredentials& credentials,
                                      const Introduction& introduction, uint64_t deadline_ns,
                                      const std::string& name) {
  auto secured =
      begin_tls(credentials.tls.get(), std::move(fd), {kNode, ""}, address, name, deadline_ns);
  if (!secured) return secured;
  std::unique_ptr<Stream> stream = std::move(*secured);
  const std::string node = format_address(address);
  const SharedToken token = credentials.token.value();
  if (auto done = handshake_as_client(*stream, token, introduction, node, deadline_ns); !done) {
    // The node tells its verdict on the client's certificate only now.
    const auto* under_tls = dynamic_cast<const TlsStream*>(stream.get());
    if (under_tls == nullptr || !under_tls->refused()) return tl::unexpected(done.error());
    return fail(Code::kDenied, fmt::format("the node at {} has ended TLS: {}; {}", node,
                                           under_tls->failure(), under_tls->advice()));
  }
  return stream;
}

Address reached(const Stream& stream) {
  Endpoint endpoint;
  endpoint.bytes = sizeof endpoint.storage;
  ::getpeername(stream.fd(), reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.bytes);
  return {"", endpoint.host(), endpoint.port()};
}

}  // namespace farpage
