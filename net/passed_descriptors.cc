#include "net/passed_descriptors.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace farpage {

ssize_t receive_with_descriptors(int socket, std::span<const iovec> parts,
                                 std::deque<UniqueFd>& received) {
  union {
    cmsghdr align;
    char bytes[CMSG_SPACE(kMaxPassedDescriptors * sizeof(int))];
  } control;
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(parts.data());  // recvmsg only reads it
  message.msg_iovlen = parts.size();
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const size_t before = received.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return got;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      received.emplace_back(fd);
    }
  }
  // Some did not find a place, though there was one for them here.
  const bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  if (is_cut && received.size() - before < kMaxPassedDescriptors) {
    errno = EMFILE;
    return -1;
  }
  return got;
}

}  // namespace farpage
