#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/codec.h"
#include "net/runtime/asio_runtime.h"
#include "net/stream/stream.h"

namespace farpage {

class UnixStream;

// Frames over one stream, descriptors beside them where it carries any: docs/formats/control.md.
// All on the runtime.
class FrameConnection : public std::enable_shared_from_this<FrameConnection> {
 public:
  FrameConnection(AsioRuntime& runtime, std::unique_ptr<Stream> stream);

  // `on_frame` for each frame; `on_end` once, when the peer is gone, has broken the protocol, or
  // close() was called. Neither may own the connection.
  void start(std::function<void(Frame)> on_frame, std::function<void(Error)> on_end);
  // A peer that does not read is cut off once much waits for it. Refuses a frame whose descriptors
  // the stream cannot carry.
  Result<void> send(Frame frame);
  // Of what was sent, that the peer's socket has not taken yet.
  size_t unread_bytes() const { return outgoing_bytes_; }
  // Takes no frame for so long: what the peer sends meanwhile waits in its socket.
  void pause(uint64_t delay_ns);
  // Earlier messages go out first, as far as the socket takes them.
  void close();

 private:
  struct Outgoing {
    std::string bytes;
    size_t sent = 0;
    std::vector<UniqueFd> descriptors;
  };

  // Later, if the connection is still there.
  std::function<void()> later(void (FrameConnection::*step)());
  void wait(short events);
  void readable();
  void writable();
  void resume();
  void turn();
  void read_available();
  void read_on();
  bool deliver_frames();
  void write_queued();
  void end(Error error);

  AsioRuntime& runtime_;
  std::unique_ptr<Stream> stream_;
  UnixStream* const descriptors_;  // null: the stream carries none
  std::unique_ptr<Watch> watch_;   // goes before the stream
  std::function<void(Frame)> on_frame_;
  std::function<void(Error)> on_end_;
  std::string incoming_;
  std::deque<Outgoing> outgoing_;
  size_t outgoing_bytes_ = 0;
  size_t outgoing_descriptors_ = 0;
  bool awaiting_readable_ = false;
  bool awaiting_writable_ = false;
  bool paused_ = false;
  bool ended_ = false;
};

}  // namespace farpage
