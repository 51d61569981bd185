#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/runtime.h"
#include "base/turn_timer.h"
#include "control/link.h"
#include "node/fleet/node_epoch.h"
#include "node/fleet/page_reader.h"
#include "node/store/page_store.h"

namespace farpage {

// Takes over what the primaries of its keys send: reads the page where it lies, into a slot of its
// own, and applies it (REPLICA of the protocol). Pages of one session are read together, and
// applied in the order in which they were sent. On the runtime's thread.
class ReplicaReceiver {
 public:
  // `reader`: of a member's pages, null if it is unknown. Nothing is taken before `opens_ns`.
  ReplicaReceiver(Runtime& runtime, PageStore& store, const NodeEpoch& epoch, uint64_t opens_ns,
                  std::function<PageReader*(NodeId)> reader, std::function<bool(NodeId)> reached);

  // The member's newest session: what older ones have sent is not applied any more.
  void begin(ClientId session, NodeId from);
  void end(ClientId session);
  // Refused if it is of another epoch, of no session that is a member's newest, or if too many
  // pages of that member wait. kTimeout: the request's patience had ended before the page's turn
  // came.
  void replicate(ClientId session, ReplicateRequest request, std::function<void(Reply)> done);
  // All that waits, with this code: its epoch has ended.
  void abort(Code code);

  uint64_t applied() const { return applied_; }

 private:
  struct Answer {
    std::vector<Code> codes;
    size_t left = 0;
    uint64_t deadline_ns = 0;
    std::function<void(Reply)> done;
  };
  enum class State : uint8_t { kWaiting, kReading, kRead };
  struct Item {
    ReplicaPage page;
    std::shared_ptr<Answer> answer;
    size_t index = 0;  // in the answer
    State state = State::kWaiting;
    bool has_slot = false;
    uint32_t slot = 0;
    Code code = Code::kOk;
    PageReader::Landed landed = {};
  };
  struct Stream {
    NodeId from = 0;
    std::deque<std::shared_ptr<Item>> items;
  };

  Code judge(NodeId from, const ReplicaPage& page) const;
  void turn();  // of every session
  void turn(ClientId session);
  bool begin_read(ClientId session, Stream& stream, const std::shared_ptr<Item>& item);
  void apply(Item& item);
  void settle(Item& item, Code code);
  void drop(Item& item);

  Runtime& runtime_;
  PageStore& store_;
  const NodeEpoch& epoch_;
  const uint64_t opens_ns_;
  const std::function<PageReader*(NodeId)> reader_;
  const std::function<bool(NodeId)> reached_;
  std::unordered_map<ClientId, Stream> streams_;
  uint64_t applied_ = 0;
  TurnTimer timer_;  // of turn()
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by callbacks that look at it
};

}  // namespace farpage
