#include "control/served_clients.h"

namespace farpage {
namespace {

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
  clients_.emplace(*client, Client{connection, RequestBudget(limits_.max_requests_per_s)});
  connection->start(
      [weak = weak_from_this(), client = *client](const Frame& frame) {
        if (auto self = weak.lock()) self->receive(client, frame);
      },
      [weak = weak_from_this(), client = *client](const Error& error) {
        if (auto self = weak.lock()) self->end(client, error);
      });
}

void ServedClients::receive(ClientId client, const Frame& frame) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  // A reply that cannot be sent ends it.
  const std::shared_ptr<FrameConnection> connection = found->second.connection;
  auto message = decode_request(frame);
  if (!message) return refuse(*connection, message.error());
  const uint64_t pause_ns = found->second.budget.spend(runtime_.clock().now_ns());
  if (pause_ns > 0) connection->pause(pause_ns);
  std::weak_ptr<FrameConnection> weak = connection;
  service_->handle(client, std::move(message->request), [weak, id = message->id](Reply reply) {
    if (auto alive = weak.lock()) answer(*alive, id, std::move(reply));
  });
}

void ServedClients::end(ClientId client, const Error& error) {
  if (clients_.erase(client) == 0 || service_ == nullptr) return;
  if (error.code == Code::kProtocol || error.code == Code::kExhausted) {
    warnings_.warn("a client was cut off: " + error.message);
  }
  service_->disconnected(client);
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
