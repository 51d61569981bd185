#include "control/unix_stream.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

#include "base/check.h"
#include "control/codec.h"
#include "net/passed_descriptors.h"

namespace farpage {

static_assert(kMaxFrameDescriptors <= kMaxPassedDescriptors);

UnixStream::UnixStream(UniqueFd fd) : Stream(std::move(fd)) {}

Transfer UnixStream::read(std::span<const iovec> parts) {
  return transfer_of(receive_with_descriptors(fd(), parts, received_), POLLIN);
}

Transfer UnixStream::write(std::span<const iovec> parts) {
  return write_with(parts, {});
}

Transfer UnixStream::write_with(std::span<const iovec> parts,
                                std::span<const UniqueFd> descriptors) {
  FARPAGE_CHECK(descriptors.size() <= kMaxFrameDescriptors);
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());  // sendmsg only reads it
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFrameDescriptors * sizeof(int))> control = {};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    for (size_t i = 0; i < descriptors.size(); ++i) {
      const int fd = descriptors[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  return transfer_of(::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT), POLLOUT);
}

}  // namespace farpage
