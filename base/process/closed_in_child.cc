#include "base/process/closed_in_child.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace farpage {
namespace {

struct Entry {
  uint64_t number = 0;
  int fd = -1;
  // What it is: its owner may have closed it, and another file may have its number.
  dev_t device = 0;
  ino_t inode = 0;
};

class Registry {
 public:
  // Lives until the process ends: a thread may fork after the destructors of statics.
  static Registry& of_process() {
    static auto* const registry = new Registry;
    return *registry;
  }

  uint64_t add(int fd) {
    struct stat status = {};
    if (::fstat(fd, &status) != 0) return 0;
    const std::lock_guard lock(mutex_);
    entries_.push_back({++last_, fd, status.st_dev, status.st_ino});
    return last_;
  }
  void remove(uint64_t number) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [number](const Entry& entry) { return entry.number == number; });
  }

 private:
  Registry() {
    ::pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                     [] {
                       of_process().close_all();
                       of_process().mutex_.unlock();
                     });
  }

  // Calls nothing that is not safe in the child of a process with threads.
  void close_all() {
    for (const Entry& entry : entries_) {
      struct stat status = {};
      const bool is_same = ::fstat(entry.fd, &status) == 0 && status.st_dev == entry.device &&
                           status.st_ino == entry.inode;
      if (is_same) ::close(entry.fd);
    }
  }

  std::mutex mutex_;  // held while the process forks
  std::vector<Entry> entries_;
  uint64_t last_ = 0;
};

}  // namespace

ClosedInChild::ClosedInChild(int fd) : number_(Registry::of_process().add(fd)) {}

ClosedInChild::~ClosedInChild() {
  if (number_ != 0) Registry::of_process().remove(number_);
}

}  // namespace farpage
