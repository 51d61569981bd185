#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "tier/client.h"

namespace farpage {

// Clients with one lane each that keep their view of the node, and ask for nothing else.
class IdleClients {
 public:
  // `connect` makes one client; `interrupted` is asked before each, `opened` told after it.
  // Their runtime and fabric outlive them.
  static Result<IdleClients> open(uint64_t count,
                                  const std::function<Result<std::unique_ptr<Client>>()>& connect,
                                  const std::function<bool()>& interrupted,
                                  const std::function<void(uint64_t done, uint64_t total)>& opened);

  uint64_t count() const { return clients_.size(); }
  // Those whose lease has not ended.
  uint64_t reachable() const;

 private:
  struct Idle {
    std::unique_ptr<Client> client;  // before the lane that uses it
    Lane lane;
  };
  std::vector<Idle> clients_;
};

}  // namespace farpage
