#include "control/served_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kLeasesOfSilence = 3;
constexpr uint64_t kLooksPerSilence = 4;
constexpr uint64_t kUnreadOfItsOwn = 256 * kKiB;  // of one client
constexpr int kLooksInATurn = 1'024;
constexpr int kLooksForAnEnd = 64;  // that it costs as much as

// A reply that cannot travel this way becomes the reason why.
void answer(FrameConnection& connection, uint64_t id, Reply reply) {
  if (auto sent = connection.send(encode(NumberedReply{id, std::move(reply)})); !sent) {
    Refusal refusal = {sent.error().code, sent.error().message};
    (void)connection.send(encode(NumberedReply{id, std::move(refusal)}));
  }
}

uint64_t beyond_its_own(const FrameConnection& connection) {
  return connection.unread_bytes() - std::min<uint64_t>(connection.unread_bytes(), kUnreadOfItsOwn);
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
  const uint64_t now_ns = runtime_.clock().now_ns();
  clients_.emplace(*client, Client{connection, RequestBudget(limits_.max_requests_per_s),
                                   limits_.silence_ns, now_ns + limits_.silence_ns});
  looks_.push_back({now_ns + limits_.silence_ns / kLooksPerSilence, *client});
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
  const auto still = clients_.find(client);  // an answer that cannot be sent ends it
  if (still != clients_.end()) limit_unread(still->second);
}

void ServedClients::limit_unread(Client& last) {
  const uint64_t before = last.unread;
  last.unread = beyond_its_own(*last.connection);
  unread_ = unread_ - before + last.unread;
  if (unread_ <= limits_.max_unread_bytes) return;
  const std::shared_ptr<FrameConnection> most = recount_unread();
  if (most == nullptr || unread_ <= limits_.max_unread_bytes) return;
  warnings_.warn(
      fmt::format("a client was cut off: it leaves {} of replies unread, of {} that all "
                  "clients together leave",
                  format_bytes(most->unread_bytes()), format_bytes(unread_)));
  // Later, because it is a service that answers which is not to hear of another client's end now.
  runtime_.after(0, [most] { most->close(); });
}

// Clients read meanwhile. The one that has left the most; null: none has left any.
std::shared_ptr<FrameConnection> ServedClients::recount_unread() {
  unread_ = 0;
  const Client* most = nullptr;
  for (auto& [id, client] : clients_) {
    client.unread = beyond_its_own(*client.connection);
    unread_ += client.unread;
    if (client.unread > (most == nullptr ? 0 : most->unread)) most = &client;
  }
  return most == nullptr ? nullptr : most->connection;
}

void ServedClients::end(ClientId client, const Error& error) {
  const auto ended = clients_.extract(client);
  if (ended.empty() || service_ == nullptr) return;
  unread_ -= ended.mapped().unread;
  if (error.code == Code::kProtocol || error.code == Code::kExhausted) {
    warnings_.warn("a client was cut off: " + error.message);
  }
  service_->disconnected(client);
}

void ServedClients::watch_silence() {
  if (watching_ || looks_.empty()) return;
  watching_ = true;
  const uint64_t now_ns = runtime_.clock().now_ns();
  const uint64_t due_ns = looks_.front().at_ns;
  runtime_.after(due_ns - std::min(due_ns, now_ns), [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->watching_ = false;
    self->look_at_some();
    self->watch_silence();
  });
}

void ServedClients::look_at_some() {
  const uint64_t now_ns = runtime_.clock().now_ns();
  for (int i = 0; i < kLooksInATurn && !looks_.empty() && looks_.front().at_ns <= now_ns; ++i) {
    const ClientId client = looks_.front().client;
    looks_.pop_front();
    const auto found = clients_.find(client);
    if (found == clients_.end()) continue;
    looks_.push_back({now_ns + limits_.silence_ns / kLooksPerSilence, client});
    if (now_ns < found->second.ends_ns) continue;
    const std::shared_ptr<FrameConnection> silent = found->second.connection;  // its end erases it
    end_silent(*silent);
    i += kLooksForAnEnd;
  }
}

void ServedClients::end_silent(FrameConnection& silent) {
  const Error error = {Code::kTimeout,
                       "no hello and no renewal of the lease has come for too long"};
  warnings_.warn("a client was cut off: " + error.message);
  refuse(silent, error);
}

void ServedClients::stop() {
  auto clients = std::move(clients_);
  clients_.clear();
  unread_ = 0;
  looks_.clear();
  for (auto& [id, client] : clients) {
    service_->disconnected(id);
    client.connection->close();
  }
  service_ = nullptr;
}

}  // namespace farpage
