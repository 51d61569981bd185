#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "control/messages.h"

namespace farpage {

inline constexpr uint32_t kMaxFrameBytes = 1 << 20;
inline constexpr uint32_t kMaxFrameDescriptors = 16;

// One message between its value and a frame's body. Descriptors travel beside the body, in
// `descriptors`.
struct Frame {
  std::string body;
  std::vector<UniqueFd> descriptors;
};

struct NumberedRequest {
  uint64_t id = 0;  // chosen by the client; comes back with the reply
  Request request;
};

struct NumberedReply {
  uint64_t id = 0;
  Reply reply;
};

Frame encode(NumberedRequest message);
Frame encode(NumberedReply message);

// Refuses what is no message, names no known kind, or exceeds the limits of message_limits.h. Other
// numbers inside are taken as they are.
Result<NumberedRequest> decode_request(Frame frame);
Result<NumberedReply> decode_reply(Frame frame);

}  // namespace farpage
