#include "sim/sim_connection.h"

#include <utility>

#include "base/check.h"

namespace farpage {
namespace {

class SimLink final : public ControlLink {
 public:
  explicit SimLink(std::shared_ptr<SimConnection> connection)
      : connection_(std::move(connection)) {}
  ~SimLink() override { close(); }
  void call(Request request, ReplyCallback done) override {
    connection_->call(std::move(request), std::move(done));
  }
  void close() override {
    connection_->lose_caller_end(0);
    connection_->lose_node_end();
  }
  const Peer& peer() const override { return peer_; }

 private:
  const Peer peer_;
  std::shared_ptr<SimConnection> connection_;
};

tl::unexpected<Error> lost_error() {
  return fail(Code::kUnavailable, "the simulated link is lost");
}

}  // namespace

std::shared_ptr<ControlLink> make_sim_link(std::shared_ptr<SimConnection> connection) {
  return std::make_shared<SimLink>(std::move(connection));
}

void SimConnection::call(Request request, ReplyCallback done) {
  ++wire_.messages;
  if (lost_) {
    caller_.runtime.after(0, [done = std::move(done)] { done(lost_error()); });
    return;
  }
  const uint64_t id = ++last_id_;
  waiting_.emplace(id, std::move(done));
  to_node_.push_back(encode(NumberedRequest{id, std::move(request)}));
  node_.runtime.after(wire_.delay(), [self = shared_from_this()] { self->arrive_at_node(); });
}

void SimConnection::lose_caller_end(uint64_t delay_ns) {
  caller_.runtime.after(delay_ns, [self = shared_from_this()] {
    self->lost_ = true;
    auto waiting = std::move(self->waiting_);
    self->waiting_.clear();
    for (auto& [id, done] : waiting) done(lost_error());
  });
}

void SimConnection::lose_node_end() {
  node_.runtime.after(wire_.delay(), [self = shared_from_this()] {
    if (self->silent_) return;
    ControlService* service = std::exchange(self->service_, nullptr);
    if (service != nullptr && self->client_id_ != 0) service->disconnected(self->client_id_);
  });
}

void SimConnection::healed() {
  for (; late_to_node_ > 0; --late_to_node_) {
    node_.runtime.after(wire_.delay(), [self = shared_from_this()] { self->arrive_at_node(); });
  }
  for (; late_to_caller_ > 0; --late_to_caller_) {
    caller_.runtime.after(wire_.delay(), [self = shared_from_this()] { self->arrive_at_caller(); });
  }
}

void SimConnection::arrive_at_node() {
  if (service_ == nullptr || silent_) return;
  if (!wire_.passes(caller_.host, node_.host)) {
    ++late_to_node_;
    return;
  }
  if (client_id_ == 0) client_id_ = service_->connected().value();
  auto message = decode_request(std::move(to_node_.front())).value();
  to_node_.pop_front();
  service_->handle(client_id_, std::move(message.request),
                   [weak = weak_from_this(), id = message.id](Reply reply) {
                     if (auto self = weak.lock()) self->answer(id, std::move(reply));
                   });
}

void SimConnection::answer(uint64_t id, Reply reply) {
  FARPAGE_CHECK(service_ != nullptr);  // no answer comes after disconnected()
  if (wire_.answers) wire_.answers(node_.host, reply);
  to_caller_.push_back(encode(NumberedReply{id, std::move(reply)}));
  caller_.runtime.after(wire_.delay(), [self = shared_from_this()] { self->arrive_at_caller(); });
}

void SimConnection::arrive_at_caller() {
  if (silent_) return;
  if (!wire_.passes(caller_.host, node_.host)) {
    ++late_to_caller_;
    return;
  }
  auto message = decode_reply(std::move(to_caller_.front())).value();
  to_caller_.pop_front();
  const auto found = waiting_.find(message.id);
  if (found == waiting_.end()) return;
  ReplyCallback done = std::move(found->second);
  waiting_.erase(found);
  done(std::move(message.reply));
}

void SimDialer::dial(DialCallback done) {
  caller_.after(wire_.delay(), [this, done = std::move(done)] {
    auto connection = open_();
    if (connection == nullptr) return done(fail(Code::kUnavailable, "no node answers"));
    done(make_sim_link(std::move(connection)));
  });
}

}  // namespace farpage
