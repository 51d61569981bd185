#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/codec.h"

namespace farpage {

inline constexpr uint32_t kMaxFrameBytes = 1 << 20;
inline constexpr uint32_t kMaxFrameDescriptors = 16;

// Frames over one Unix socket, descriptors beside them: docs/formats/control.md. All on the
// runtime.
class UnixConnection : public std::enable_shared_from_this<UnixConnection> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  explicit UnixConnection(Socket socket);

  // `on_frame` for each frame; `on_end` once, when the peer is gone, has broken the protocol, or
  // close() was called. Neither may own the connection.
  void start(std::function<void(Frame)> on_frame, std::function<void(Error)> on_end);
  // A peer that does not read is cut off once much waits for it.
  void send(Frame frame);
  // What was sent before goes out first, as far as the socket takes it.
  void close();

 private:
  struct Outgoing {
    std::string bytes;
    size_t sent = 0;
    std::vector<UniqueFd> descriptors;
  };

  void await_readable();
  void read_available();
  bool deliver_frames();
  void write_queued();
  void end(Error error);

  Socket socket_;
  std::function<void(Frame)> on_frame_;
  std::function<void(Error)> on_end_;
  std::string incoming_;
  std::deque<UniqueFd> incoming_descriptors_;
  std::deque<Outgoing> outgoing_;
  size_t outgoing_bytes_ = 0;
  size_t outgoing_descriptors_ = 0;
  bool awaiting_writable_ = false;
  bool ended_ = false;
};

}  // namespace farpage
