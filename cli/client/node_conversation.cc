#include "cli/client/node_conversation.h"

#include <fmt/format.h>

#include "base/units.h"
#include "control/tcp_control.h"

namespace farpage {
namespace {

constexpr uint64_t kPatienceNs = 5 * kSecond;

}  // namespace

NodeConversation::NodeConversation(std::string address, const Interrupts& interrupts)
    : address_(std::move(address)), interrupts_(interrupts) {}

Result<std::unique_ptr<NodeConversation>> NodeConversation::open(
    const std::string& address, const ClientCredentials& credentials, uint64_t connect_ms,
    const Interrupts& interrupts) {
  auto parsed = parse_address(address);
  if (!parsed) return tl::unexpected(parsed.error());
  std::unique_ptr<NodeConversation> opened(new NodeConversation(address, interrupts));
  auto dialer = make_dialer(opened->runtime_, *parsed, credentials, connect_ms);
  if (!dialer) return tl::unexpected(dialer.error());
  opened->dialer_ = std::move(*dialer);
  return opened;
}

// Closing the link answers, too.
NodeConversation::~NodeConversation() {
  runtime_.run([this] { state_->link.reset(); });
}

bool NodeConversation::is_answered() {
  const std::lock_guard lock(state_->mutex);
  return state_->reply.has_value();
}

// On the runtime.
void NodeConversation::send(Request request) {
  const auto answered = [this, state = state_](Result<Reply> reply) {
    {
      const std::lock_guard lock(state->mutex);
      state->reply.emplace(std::move(reply));
    }
    runtime_.notify();
  };
  if (state_->link != nullptr) return state_->link->call(std::move(request), answered);
  // Shared, because std::function needs what can be copied.
  auto first = std::make_shared<Request>(std::move(request));
  dialer_->dial([state = state_, first, answered](Result<std::shared_ptr<ControlLink>> link) {
    if (!link) return answered(tl::unexpected(link.error()));
    state->link = *link;
    state->link->call(std::move(*first), answered);
  });
}

Result<Reply> NodeConversation::ask(Request request) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->reply.reset();
  }
  runtime_.run([&] { send(std::move(request)); });
  runtime_.wait_until(runtime_.clock().now_ns() + kPatienceNs,
                      [this] { return is_answered() || interrupts_.interrupted(); });
  if (!is_answered()) {
    // A late answer is none to the next question.
    runtime_.run([this] { state_->link.reset(); });
    if (interrupts_.interrupted()) return fail(Code::kAborted, "interrupted");
    return fail(
        Code::kTimeout,
        fmt::format("the node on {} did not answer within {} s: is it stopped, or still starting?",
                    address_, kPatienceNs / kSecond));
  }
  const std::lock_guard lock(state_->mutex);
  Result<Reply> reply = std::move(*state_->reply);
  if (!reply) return reply;
  if (const auto* refusal = std::get_if<Refusal>(&*reply)) {
    return fail(refusal->code, refusal->message);
  }
  return reply;
}

Error NodeConversation::other_version() const {
  return {
      Code::kProtocol,
      fmt::format("the process that listens on {} is not a memory node of this version", address_)};
}

Result<StatusReply> ask_status(const std::string& address, const ClientCredentials& credentials,
                               uint64_t connect_ms, const Interrupts& interrupts) {
  auto node = NodeConversation::open(address, credentials, connect_ms, interrupts);
  if (!node) return tl::unexpected(node.error());
  return (*node)->ask_for<StatusReply>(StatusRequest{});
}

}  // namespace farpage
