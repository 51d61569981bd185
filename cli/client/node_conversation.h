#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/client/signals.h"
#include "control/link.h"
#include "control/messages.h"
#include "net/dial.h"
#include "net/runtime/asio_runtime.h"

namespace farpage {

// What a command asks a running node, without being a client of it. Every question waits for some
// seconds at most; kAborted: interrupted. After a question that was not answered, ask no more. One
// thread.
class NodeConversation {
 public:
  // `interrupts` outlives it. The first question dials.
  static Result<std::unique_ptr<NodeConversation>> open(const std::string& address,
                                                        const ClientCredentials& credentials,
                                                        uint64_t connect_ms,
                                                        const Interrupts& interrupts);
  ~NodeConversation();

  // The node's refusal is an error with its code and sentence.
  Result<Reply> ask(Request request);

  template <typename Wanted>
  Result<Wanted> ask_for(Request request) {
    auto reply = ask(std::move(request));
    if (!reply) return tl::unexpected(reply.error());
    if (auto* wanted = std::get_if<Wanted>(&*reply)) return std::move(*wanted);
    return tl::unexpected(other_version());
  }

 private:
  // The answers come on the runtime's thread, perhaps after the caller has stopped waiting.
  struct State {
    std::shared_ptr<ControlLink> link;  // the runtime's alone
    std::mutex mutex;
    std::optional<Result<Reply>> reply;
  };

  NodeConversation(std::string address, const Interrupts& interrupts);
  void send(Request request);
  bool is_answered();
  Error other_version() const;

  const std::string address_;
  const Interrupts& interrupts_;
  AsioRuntime runtime_;
  std::unique_ptr<ControlDialer> dialer_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

Result<StatusReply> ask_status(const std::string& address, const ClientCredentials& credentials,
                               uint64_t connect_ms, const Interrupts& interrupts);

}  // namespace farpage
