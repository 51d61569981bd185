#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "net/runtime/asio_runtime.h"
#include "net/stream/stream.h"
#include "transport/tcp/exports.h"
#include "transport/tcp/target.h"
#include "transport/tcp/traffic_counters.h"
#include "transport/tcp/wire.h"

namespace farpage::tcp {

// One channel's connection at the node: reads requests, looks every address up in the
// registrations, and moves bytes between socket and registered memory, with no copy between. Of a
// large page, the socket refers to the memory itself.
// Replies go out in the order of the requests. A request that is refused is answered, and ends the
// connection. All of it on one I/O thread.
class DataConnection : public std::enable_shared_from_this<DataConnection> {
 public:
  DataConnection(AsioRuntime& loop, std::unique_ptr<Stream> stream,
                 std::shared_ptr<TargetState> channel, std::shared_ptr<const Exports> exports,
                 Exports::User& user, TrafficCounters& traffic);

  // `on_end` runs once, on the loop.
  void start(std::function<void()> on_end);
  // Something outside has changed: the channel is closed, or has room for immediates.
  void wake();

 private:
  // As many replies as may wait for the peer to read them; no request is read beyond.
  static constexpr uint32_t kMostReplies = 64;

  struct Pending {
    Reply reply;
    RegionKey region;  // whence the reply's bytes are taken
    uint64_t offset;
  };

  enum class Progress : uint8_t { kMoved, kBlocked, kEnded };

  void advance();
  Progress receive();
  Progress send();
  Progress send_file(const Exports::Entry& entry, const Pending& pending);
  void count_sent(uint64_t bytes);
  Progress stopped(const Transfer& transfer);
  void take_requests(const Exports::Use& use);
  void take(const Request& request, const Exports::Use& use);
  bool finish_write();
  void reply(uint32_t sequence, Code code, const Request* read);
  void await(short events);
  void end();

  AsioRuntime& loop_;
  std::unique_ptr<Stream> stream_;
  PlainStream* const plain_;      // stream_, if it can send files; null: TLS
  std::unique_ptr<Watch> watch_;  // after stream_: it goes first
  std::shared_ptr<TargetState> channel_;
  std::shared_ptr<const Exports> exports_;
  Exports::User& user_;
  TrafficCounters& traffic_;
  std::function<void()> on_end_;

  std::array<Request, kMostReplies> requests_;  // as they come; the last one may be incomplete
  size_t request_bytes_ = 0;
  bool writing_ = false;  // write_ has come, its payload has not all
  Request write_ = {};
  uint64_t written_ = 0;
  bool immediate_waits_ = false;  // the peer's immediate has no room yet

  std::array<Pending, kMostReplies> replies_;
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint64_t sent_ = 0;  // of the first reply, its payload included
  uint32_t next_sequence_ = 1;
  bool refused_ = false;  // ends once what waits has been sent
  bool read_all_there_was_ = false;
  short blocked_on_ = 0;     // what the last transfer that could not go on waits for
  uint64_t turn_bytes_ = 0;  // moved since another connection had its turn
  uint32_t turn_replies_ = 0;
  bool turn_comes_ = false;  // advance() is called again without an event
};

}  // namespace farpage::tcp
