#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "base/log.h"
#include "control/frame_connection.h"
#include "control/link.h"
#include "control/request_budget.h"

namespace farpage {

// The connections of a server's clients, wherever they come from. One that is silent is ended: it
// holds a place that another client may want. It is looked for in turns, however many there are.
// All on the runtime.
class ServedClients : public std::enable_shared_from_this<ServedClients> {
 public:
  ServedClients(AsioRuntime& runtime, ControlService& service, const ControlLimits& limits)
      : runtime_(runtime), service_(&service), limits_(limits) {}

  void serve(std::unique_ptr<Stream> stream);
  // Ends all of them, and serves no more.
  void stop();

 private:
  struct Client {
    std::shared_ptr<FrameConnection> connection;
    RequestBudget budget;
    uint64_t silence_ns;  // as long as it may be silent
    uint64_t ends_ns;     // if it stays silent
    uint64_t unread = 0;  // beyond its own, when last seen
    bool said_hello = false;
  };

  void receive(ClientId client, Frame frame);
  void reply(ClientId client, uint64_t id, Reply reply);
  void limit_unread(Client& last);
  std::shared_ptr<FrameConnection> recount_unread();
  void end(ClientId client, const Error& error);
  void watch_silence();
  void look_at_some();
  void end_silent(FrameConnection& silent);

  AsioRuntime& runtime_;
  ControlService* service_;  // null: stopped
  const ControlLimits limits_;
  std::unordered_map<ClientId, Client> clients_;
  // When each is looked at next, whether it is silent: one look for each client, and for a while
  // one for each that has gone.
  struct Look {
    uint64_t at_ns;
    ClientId client;
  };
  std::deque<Look> looks_;
  uint64_t unread_ = 0;  // of all clients, as last seen: by now it may be less
  bool watching_ = false;
  WarningLimiter warnings_;
};

}  // namespace farpage
