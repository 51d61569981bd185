#pragma once

#include <deque>
#include <span>

#include "base/unique_fd.h"
#include "net/stream/stream.h"

namespace farpage {

// A connected Unix socket, with descriptors beside its bytes (SCM_RIGHTS).
class UnixStream final : public Stream {
 public:
  explicit UnixStream(UniqueFd fd);

  Transfer read(std::span<const iovec> parts) override;
  Transfer write(std::span<const iovec> parts) override;

  // The descriptors, kMaxFrameDescriptors at most, go with the first byte that moves.
  Transfer write_with(std::span<const iovec> parts, std::span<const UniqueFd> descriptors);
  // Descriptors that came with the bytes so far, in order; taking them removes them.
  std::deque<UniqueFd>& received() { return received_; }

 private:
  std::deque<UniqueFd> received_;
};

}  // namespace farpage
