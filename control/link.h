#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "control/messages.h"

namespace farpage {

using ReplyCallback = std::function<void(Result<Reply>)>;

// A client's end of one control connection. call() is thread-safe. `done` runs exactly once, on the
// runtime: with the reply (a Refusal is a reply), or with an error when the link is lost or
// destroyed. There is no deadline here; the caller keeps its own.
class ControlLink {
 public:
  virtual ~ControlLink() = default;
  virtual void call(Request request, ReplyCallback done) = 0;
};

using DialCallback = std::function<void(Result<std::shared_ptr<ControlLink>>)>;

// Makes links to one node. `done` runs once, on the runtime.
class ControlDialer {
 public:
  virtual ~ControlDialer() = default;
  virtual void dial(DialCallback done) = 0;
};

using ClientId = uint64_t;

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
