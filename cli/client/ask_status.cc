#include "cli/client/ask_status.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/units.h"
#include "control/tcp_control.h"
#include "net/runtime/asio_runtime.h"

namespace farpage {
namespace {

constexpr uint64_t kPatienceNs = 5 * kSecond;

// The answers come on the runtime's thread, perhaps after the caller has stopped waiting.
struct Conversation {
  std::shared_ptr<ControlLink> link;  // the runtime's alone
  std::mutex mutex;
  std::optional<Result<Reply>> reply;

  bool is_answered() {
    const std::lock_guard lock(mutex);
    return reply.has_value();
  }
};

}  // namespace

Result<StatusReply> ask_status(const std::string& address, const ClientCredentials& credentials,
                               uint64_t connect_ms, const Interrupts& interrupts) {
  auto parsed = parse_address(address);
  if (!parsed) return tl::unexpected(parsed.error());
  AsioRuntime runtime;
  auto dialer = make_dialer(runtime, *parsed, credentials, connect_ms);
  if (!dialer) return tl::unexpected(dialer.error());
  auto conversation = std::make_shared<Conversation>();
  const auto answered = [&runtime, conversation](Result<Reply> reply) {
    {
      const std::lock_guard lock(conversation->mutex);
      conversation->reply.emplace(std::move(reply));
    }
    runtime.notify();
  };
  runtime.run([&] {
    (*dialer)->dial([conversation, answered](Result<std::shared_ptr<ControlLink>> link) {
      if (!link) return answered(tl::unexpected(link.error()));
      conversation->link = *link;
      (*link)->call(StatusRequest{}, answered);
    });
  });
  runtime.wait_until(runtime.clock().now_ns() + kPatienceNs,
                     [&] { return conversation->is_answered() || interrupts.interrupted(); });
  const bool is_answered = conversation->is_answered();
  runtime.run([&] { conversation->link.reset(); });  // which answers too, that the link was closed
  if (!is_answered && interrupts.interrupted()) return fail(Code::kAborted, "interrupted");
  if (!is_answered) {
    return fail(Code::kTimeout,
                fmt::format("the node on {} did not answer within {} s; is it stopped?", address,
                            kPatienceNs / kSecond));
  }
  const Result<Reply>& reply = *conversation->reply;
  if (!reply) return tl::unexpected(reply.error());
  if (const auto* refusal = std::get_if<Refusal>(&*reply))
    return fail(refusal->code, refusal->message);
  if (const auto* status = std::get_if<StatusReply>(&*reply)) return *status;
  return fail(
      Code::kProtocol,
      fmt::format("the process that listens on {} is not a memory node of this version", address));
}

}  // namespace farpage
