#include "net/descriptor_set.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

namespace farpage {
namespace {

constexpr size_t kMostEvents = 32;

epoll_event event_of(int fd, short events) {
  epoll_event event = {};
  if ((events & POLLIN) != 0) event.events |= EPOLLIN;
  if ((events & POLLOUT) != 0) event.events |= EPOLLOUT;
  event.data.fd = fd;
  return event;
}

}  // namespace

Result<DescriptorSet> DescriptorSet::make() {
  DescriptorSet made;
  made.set_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!made.set_.valid()) return fail_errno(errno, "epoll_create1");
  return made;
}

Result<void> DescriptorSet::add(int fd, short events) {
  epoll_event event = event_of(fd, events);
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return fail_errno(errno, "epoll_ctl");
}

void DescriptorSet::change(int fd, short events) {
  epoll_event event = event_of(fd, events);
  ::epoll_ctl(set_.get(), EPOLL_CTL_MOD, fd, &event);
}

void DescriptorSet::remove(int fd) {
  ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

size_t DescriptorSet::ready(std::span<int> ready) const {
  std::array<epoll_event, kMostEvents> events;
  const size_t most = std::min(ready.size(), events.size());
  const int count = ::epoll_wait(set_.get(), events.data(), static_cast<int>(most), 0);
  for (int i = 0; i < count; ++i) {
    ready[static_cast<size_t>(i)] = events[static_cast<size_t>(i)].data.fd;
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

}  // namespace farpage
