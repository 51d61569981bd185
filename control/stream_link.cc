#include "control/stream_link.h"

#include <optional>
#include <unordered_map>

#include "control/frame_connection.h"

namespace farpage {
namespace {

// All of it on the runtime.
class LinkState : public std::enable_shared_from_this<LinkState> {
 public:
  LinkState(AsioRuntime& runtime, std::unique_ptr<Stream> stream)
      : connection_(std::make_shared<FrameConnection>(runtime, std::move(stream))) {}

  void start() {
    connection_->start(
        [weak = weak_from_this()](Frame frame) {
          if (auto self = weak.lock()) self->receive(std::move(frame));
        },
        [weak = weak_from_this()](Error error) {
          if (auto self = weak.lock()) self->lose(std::move(error));
        });
  }

  void call(Request request, ReplyCallback done) {
    if (lost_) return done(tl::unexpected(*lost_));
    const uint64_t id = ++last_id_;
    waiting_.emplace(id, std::move(done));
    auto sent = connection_->send(encode(NumberedRequest{id, std::move(request)}));
    if (sent) return;
    // This request cannot travel this way; others can.
    auto refused = waiting_.extract(id);
    if (!refused.empty()) refused.mapped()(tl::unexpected(sent.error()));
  }

  void close() { connection_->close(); }

 private:
  void receive(Frame frame) {
    auto message = decode_reply(std::move(frame));
    if (!message) {
      lose(message.error());
      connection_->close();
      return;
    }
    const auto found = waiting_.find(message->id);
    if (found == waiting_.end()) {
      // A refusal that answers no request is about the connection: too many clients, say.
      if (auto* refusal = std::get_if<Refusal>(&message->reply)) {
        lose({refusal->code, refusal->message});
      }
      return;
    }
    ReplyCallback done = std::move(found->second);
    waiting_.erase(found);
    done(std::move(message->reply));
  }

  void lose(Error error) {
    if (lost_) return;
    lost_ = std::move(error);
    auto waiting = std::move(waiting_);
    waiting_.clear();
    for (auto& [id, done] : waiting) done(tl::unexpected(*lost_));
  }

  std::shared_ptr<FrameConnection> connection_;
  std::unordered_map<uint64_t, ReplyCallback> waiting_;
  std::optional<Error> lost_;
  uint64_t last_id_ = 0;
};

class StreamLink final : public ControlLink {
 public:
  StreamLink(AsioRuntime& runtime, std::shared_ptr<LinkState> state, Peer peer)
      : runtime_(runtime), state_(std::move(state)), peer_(std::move(peer)) {}
  ~StreamLink() override { close(); }

  void call(Request request, ReplyCallback done) override {
    // Shared, because std::function needs what can be copied.
    runtime_.dispatch(
        [state = state_, request = std::make_shared<Request>(std::move(request)),
         done = std::move(done)]() mutable { state->call(std::move(*request), std::move(done)); });
  }

  void close() override {
    runtime_.dispatch([state = state_] { state->close(); });
  }

  const Peer& peer() const override { return peer_; }

 private:
  AsioRuntime& runtime_;
  std::shared_ptr<LinkState> state_;
  const Peer peer_;
};

}  // namespace

std::shared_ptr<ControlLink> make_stream_link(AsioRuntime& runtime, std::unique_ptr<Stream> stream,
                                              Peer peer) {
  auto state = std::make_shared<LinkState>(runtime, std::move(stream));
  state->start();
  return std::make_shared<StreamLink>(runtime, std::move(state), std::move(peer));
}

}  // namespace farpage
