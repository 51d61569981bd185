#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/units.h"
#include "control/messages.h"
#include "transport/fabric.h"

namespace farpage {

using ReplyCallback = std::function<void(Result<Reply>)>;

// A client's end of one control connection. call() is thread-safe. `done` runs exactly once, on the
// runtime: with the reply (a Refusal is a reply), or with an error when the link is lost or
// destroyed. There is no deadline here; the caller keeps its own.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  virtual void call(Request request, ReplyCallback done) = 0;
  // Ends it, as if it were lost.
  virtual void close() = 0;
  // The node that it leads to.
  virtual const Peer& peer() const = 0;
};

using DialCallback = std::function<void(Result<std::shared_ptr<ControlLink>>)>;

// Makes links to one node. `done` runs once, on the runtime, and never inside dial().
class ControlDialer {
 public:
  virtual ~ControlDialer() = default;
  virtual void dial(DialCallback done) = 0;
};

using ClientId = uint64_t;

// Limits on the messages of a node's clients.
struct ControlLimits {
  uint64_t max_requests_per_s = 20'000;  // of one client; what is above it waits
  // How long one may say no hello, and then not renew its lease; of a long lease, three times that.
  uint64_t silence_ns = 5 * kSecond;
  // Of replies that all of them together leave unread, beyond 256 KiB of each. The node then cuts
  // off the client that has read the least.
  uint64_t max_unread_bytes = 64 * kMiB;
};

// A node's end: what the connections call, all on the runtime.
class ControlService {
 public:
  virtual ~ControlService() = default;

  // A new connection; an error refuses it, and is told to the peer.
  virtual Result<ClientId> connected() = 0;
  // `done` runs once, now or later, but not after disconnected().
  virtual void handle(ClientId client, Request request, std::function<void(Reply)> done) = 0;
  virtual void disconnected(ClientId client) = 0;
};

}  // namespace farpage
