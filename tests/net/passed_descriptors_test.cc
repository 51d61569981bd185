#include "net/passed_descriptors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <iterator>
#include <vector>

#include "tests/net/pair.h"

namespace farpage {
namespace {

ino_t inode(const UniqueFd& file) {
  struct stat status = {};
  EXPECT_EQ(::fstat(file.get(), &status), 0);
  return status.st_ino;
}

// One byte, with all of them beside it.
void send(const UniqueFd& socket, const std::vector<UniqueFd>& files) {
  char byte = 'x';
  iovec bytes = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(64 * sizeof(int))> control = {};
  if (!files.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    for (size_t i = 0; i < files.size(); ++i) {
      const int fd = files[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  ASSERT_EQ(::sendmsg(socket.get(), &message, MSG_NOSIGNAL), 1);
}

std::vector<UniqueFd> new_files(size_t count) {
  std::vector<UniqueFd> files;
  for (size_t i = 0; i < count; ++i) files.emplace_back(::memfd_create("file", MFD_CLOEXEC));
  return files;
}

ssize_t receive(const UniqueFd& socket, std::deque<UniqueFd>& received) {
  std::array<char, 8> bytes = {};
  const iovec part = {bytes.data(), bytes.size()};
  return receive_with_descriptors(socket.get(), {&part, 1}, received);
}

auto open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(PassedDescriptors, ComeInOrderBehindThoseThatCameBefore) {
  const auto [from, to] = socket_pair();
  const std::vector<UniqueFd> files = new_files(5);
  std::deque<UniqueFd> received;
  for (const size_t first : {size_t{0}, size_t{2}}) {
    std::vector<UniqueFd> some;
    for (size_t i = first; i < first + 2; ++i) some.emplace_back(::dup(files[i].get()));
    send(from, some);
    EXPECT_EQ(receive(to, received), 1);
  }
  send(from, {});
  EXPECT_EQ(receive(to, received), 1);
  ASSERT_EQ(received.size(), 4u);
  for (size_t i = 0; i < received.size(); ++i) {
    EXPECT_EQ(inode(received[i]), inode(files[i]));
    EXPECT_NE(::fcntl(received[i].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(PassedDescriptors, WithoutADescriptorToSpareTheErrorSaysSo) {
  const auto [from, to] = socket_pair();
  send(from, new_files(3));
  const UniqueFd next(::dup(to.get()));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower = {static_cast<rlim_t>(next.get()) + 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  std::deque<UniqueFd> received;
  const ssize_t got = receive(to, received);
  const int error = errno;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(got, -1);
  EXPECT_EQ(error, EMFILE);
}

TEST(PassedDescriptors, OfTooManyNoneIsLeftOpen) {
  const auto [from, to] = socket_pair();
  const auto before = open_descriptors();
  {
    std::deque<UniqueFd> received;
    send(from, new_files(kMaxPassedDescriptors + 3));
    EXPECT_EQ(receive(to, received), 1);
    EXPECT_EQ(received.size(), kMaxPassedDescriptors);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(PassedDescriptors, NothingThereIsNotWaitedFor) {
  auto [from, to] = socket_pair();
  std::deque<UniqueFd> received;
  EXPECT_EQ(receive(to, received), -1);
  EXPECT_EQ(errno, EAGAIN);
  from.reset();
  EXPECT_EQ(receive(to, received), 0);
  EXPECT_TRUE(received.empty());
}

}  // namespace
}  // namespace farpage
