#include "control/served_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kLeasesOfSilence = 3;
constexpr uint64_t kLooksPerSilence = 4;
constexpr uint64_t kUnreadOfItsOwn = 256 * kKiB;  // of one client

// A reply that cannot travel this way becomes the reason why.
void answer(FrameConnection& connection, uint64_t id, Reply reply) {
  if (auto sent = connection.send(encode(NumberedReply{id, std::move(reply)})); !sent) {
    Refusal refusal = {sent.error().code, sent.error().message};
    (void)connection.send(encode(NumberedReply{id, std::move(refusal)}));
  }
}

void refuse(FrameConnection& connection, const Error& error) {
  answer(connection, 0, Refusal{error.code, error.message});
  connection.close();
}

}  // namespace

void ServedClients::serve(std::unique_ptr<Stream> stream) {
  if (service_ == nullptr) return;
  auto connection = std::make_shared<FrameConnection>(runtime_, std::move(stream));
  auto client = service_->connected();
  if (!client) return refuse(*connection, client.error());
  clients_.emplace(*client,
                   Client{connection, RequestBudget(limits_.max_requests_per_s), limits_.silence_ns,
                          runtime_.clock().now_ns() + limits_.silence_ns});
  watch_silence();
  connection->start(
      [weak = weak_from_this(), client = *client](Frame frame) {
        if (auto self = weak.lock()) self->receive(client, std::move(frame));
      },
      [weak = weak_from_this(), client = *client](const Error& error) {
        if (auto self = weak.lock()) self->end(client, error);
      });
}

void ServedClients::receive(ClientId client, Frame frame) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  // A reply that cannot be sent ends it.
  const std::shared_ptr<FrameConnection> connection = found->second.connection;
  auto message = decode_request(std::move(frame));
  if (!message) return refuse(*connection, message.error());
  const uint64_t pause_ns = found->second.budget.spend(runtime_.clock().now_ns());
  if (pause_ns > 0) connection->pause(pause_ns);
  // Its answer may be long in the making. Once: to say it over and over is no way to stay.
  if (std::holds_alternative<HelloRequest>(message->request) &&
      !std::exchange(found->second.said_hello, true)) {
    found->second.ends_ns = runtime_.clock().now_ns() + limits_.silence_ns;
  }
  service_->handle(client, std::move(message->request),
                   [weak = weak_from_this(), client, id = message->id](Reply reply) {
                     if (auto self = weak.lock()) self->reply(client, id, std::move(reply));
                   });
}

void ServedClients::reply(ClientId client, uint64_t id, Reply reply) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  Client& served = found->second;
  const auto* hello = std::get_if<HelloReply>(&reply);
  if (hello != nullptr) {
    served.silence_ns = std::max(limits_.silence_ns, kLeasesOfSilence * hello->lease_ns);
  }
  if (hello != nullptr || std::holds_alternative<RenewReply>(reply)) {
    served.ends_ns = runtime_.clock().now_ns() + served.silence_ns;
  }
  const std::shared_ptr<FrameConnection> connection = served.connection;
  answer(*connection, id, std::move(reply));
  limit_unread(*connection);
}

// Looks at the others only when this reply was to a client that reads little.
void ServedClients::limit_unread(const FrameConnection& last) {
  if (last.unread_bytes() <= kUnreadOfItsOwn) return;
  uint64_t sum = 0;
  std::shared_ptr<FrameConnection> most;
  for (const auto& [id, client] : clients_) {
    const uint64_t unread = client.connection->unread_bytes();
    sum += unread - std::min(unread, kUnreadOfItsOwn);
    if (most == nullptr || unread > most->unread_bytes()) most = client.connection;
  }
  if (most == nullptr || sum <= limits_.max_unread_bytes) return;
  warnings_.warn(
      fmt::format("a client was cut off: it leaves {} of replies unread, of {} that all "
                  "clients together leave",
                  format_bytes(most->unread_bytes()), format_bytes(sum)));
  // Later, because it is a service that answers which is not to hear of another client's end now.
  runtime_.after(0, [most] { most->close(); });
}

void ServedClients::end(ClientId client, const Error& error) {
  if (clients_.erase(client) == 0 || service_ == nullptr) return;
  if (error.code == Code::kProtocol || error.code == Code::kExhausted) {
    warnings_.warn("a client was cut off: " + error.message);
  }
  service_->disconnected(client);
}

void ServedClients::watch_silence() {
  if (watching_ || clients_.empty()) return;
  watching_ = true;
  runtime_.after(limits_.silence_ns / kLooksPerSilence, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->watching_ = false;
    self->end_silent();
    self->watch_silence();
  });
}

void ServedClients::end_silent() {
  const uint64_t now = runtime_.clock().now_ns();
  std::vector<std::shared_ptr<FrameConnection>> silent;
  for (const auto& [id, client] : clients_) {
    if (now >= client.ends_ns) silent.push_back(client.connection);
  }
  const Error error = {Code::kTimeout,
                       "no hello and no renewal of the lease has come for too long"};
  for (const auto& connection : silent) {
    warnings_.warn("a client was cut off: " + error.message);
    refuse(*connection, error);
  }
}

void ServedClients::stop() {
  auto clients = std::move(clients_);
  clients_.clear();
  for (auto& [id, client] : clients) {
    service_->disconnected(id);
    client.connection->close();
  }
  service_ = nullptr;
}

}  // namespace farpage
