#include "control/unix_stream.h"

#include <sys/socket.h>

#include <cstring>

#include "base/check.h"
#include "control/codec.h"

namespace farpage {
namespace {

union DescriptorBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(kMaxFrameDescriptors * sizeof(int))];
};

msghdr message_of(std::span<const iovec> parts) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());  // sendmsg and recvmsg only read it
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

UnixStream::UnixStream(UniqueFd fd) : Stream(std::move(fd)) {}

Transfer UnixStream::read(std::span<const iovec> parts) {
  DescriptorBuffer control;
  msghdr message = message_of(parts);
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t got = ::recvmsg(fd(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return transfer_of(got, POLLIN);
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      received_.emplace_back(fd);
    }
  }
  return transfer_of(got, POLLIN);
}

Transfer UnixStream::write(std::span<const iovec> parts) {
  return write_with(parts, {});
}

Transfer UnixStream::write_with(std::span<const iovec> parts,
                                std::span<const UniqueFd> descriptors) {
  FARPAGE_CHECK(descriptors.size() <= kMaxFrameDescriptors);
  msghdr message = message_of(parts);
  DescriptorBuffer control = {};
  if (!descriptors.empty()) {
    message.msg_control = control.bytes;
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
