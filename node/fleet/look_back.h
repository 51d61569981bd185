#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/runtime.h"
#include "control/link.h"
#include "tier/link/fleet.h"

namespace farpage {

// Whether this node reaches a run that is no member yet, on the backend that its own pages use: by
// a status, which a node answers whoever it is. On the runtime's thread.
class LookBack {
 public:
  // `fleet`: with a membership. `read_again` is called where the register may know a newer address
  // than this node has read: with each hello of a name without one, and once where another one is.
  LookBack(Runtime& runtime, std::string backend, const Fleet& fleet,
           std::function<void()> read_again);

  // What its hello is refused with: kOtherEpoch once this node has reached that run; until then
  // kUnavailable, or kInvalid with what a person has to mend. Looks, unless it has just looked.
  Refusal answer(NodeId node, uint64_t incarnation);

 private:
  struct Look {
    uint64_t incarnation = 0;
    uint64_t begun_ns = 0;
    bool ended = false;
    bool read_again = false;
    Refusal said;
    std::shared_ptr<ControlLink> link;
  };

  // Null: another look has begun.
  Look* of(NodeId node, uint64_t begun_ns);
  void begin(NodeId node, Look& look);
  void asked(NodeId node, uint64_t begun_ns, const std::shared_ptr<ControlLink>& link);
  void end(NodeId node, uint64_t begun_ns, const Result<Reply>& reply);
  Refusal judge(NodeId node, uint64_t incarnation, const Result<Reply>& reply) const;

  Runtime& runtime_;
  const std::string backend_;
  const Fleet& fleet_;
  const std::function<void()> read_again_;
  std::map<NodeId, Look> looks_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
