// Two network namespaces with a link between them on which every packet takes its time, for
// kernels without netem: farpage_far_link DELAY_US. Says the numbers of two processes, one in each
// namespace, as "ready A B", where A's address is 10.9.0.1 and B's 10.9.0.2; enter them with
// nsenter -n -t. Ends, and they with it, once its standard input does. Needs root.

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

namespace {

constexpr size_t kMostBytes = 65'536;     // of a packet
constexpr size_t kMostQueued = 1U << 16;  // packets on their way; what comes beyond is lost

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

uint64_t now_us() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1'000;
}

// A process in a network namespace of its own, which does nothing until it is killed.
pid_t make_namespace() {
  std::array<int, 2> done = {};
  if (::pipe(done.data()) != 0) die("pipe");
  const pid_t child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWNET) != 0) die("unshare, which needs root");
    if (::write(done[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  ::close(done[1]);
  char told = 0;
  if (::read(done[0], &told, 1) != 1) std::exit(1);  // the child has said why
  ::close(done[0]);
  return child;
}

void call(std::vector<const char*> words) {
  words.push_back(nullptr);
  pid_t child = -1;
  int status = 0;
  const int failed = ::posix_spawnp(&child, words[0], nullptr, nullptr,
                                    const_cast<char* const*>(words.data()), environ);
  if (failed != 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    std::fprintf(stderr, "%s failed\n", words[0]);
    std::exit(1);
  }
}

// This end of the link, in the namespace of that process.
int open_end(pid_t pid, const std::string& own, const std::string& other) {
  const int home = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int there =
      ::open(("/proc/" + std::to_string(pid) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
  if (home < 0 || there < 0 || ::setns(there, CLONE_NEWNET) != 0) die("setns");
  const int link = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(request.ifr_name, "far0", IFNAMSIZ - 1);
  if (link < 0 || ::ioctl(link, TUNSETIFF, &request) != 0) die("/dev/net/tun");
  call({"ip", "link", "set", "lo", "up"});
  call({"ip", "address", "add", own.c_str(), "peer", other.c_str(), "dev", "far0"});
  call({"ip", "link", "set", "far0", "up", "mtu", "1500", "txqueuelen", "10000"});
  if (::setns(home, CLONE_NEWNET) != 0) die("setns");
  ::close(home);
  ::close(there);
  return link;
}

// Packets from one end to the other.
class Way {
 public:
  Way(int from, int to, uint64_t delay_us) : from_(from), to_(to), delay_us_(delay_us) {}

  void take() {
    const uint64_t due_us = now_us() + delay_us_;
    while (packets_.size() < kMostQueued) {
      const ssize_t bytes = ::read(from_, buffer_.data(), buffer_.size());
      if (bytes <= 0) return;
      packets_.push_back({due_us, {buffer_.data(), buffer_.data() + bytes}});
    }
  }
  void bring() {
    while (!packets_.empty() && packets_.front().due_us <= now_us()) {
      const std::vector<char>& bytes = packets_.front().bytes;
      // Bytes that the other end does not take are lost, as on any link.
      if (::write(to_, bytes.data(), bytes.size()) < 0 && errno != EAGAIN && errno != EIO) {
        die("write");
      }
      packets_.pop_front();
    }
  }
  uint64_t due_us() const { return packets_.empty() ? UINT64_MAX : packets_.front().due_us; }

 private:
  struct Packet {
    uint64_t due_us;
    std::vector<char> bytes;
  };
  int from_;
  int to_;
  uint64_t delay_us_;
  std::deque<Packet> packets_;
  std::array<char, kMostBytes> buffer_;
};

}  // namespace

int main(int count, char** arguments) {
  char* end = nullptr;
  const uint64_t delay_us = count == 2 ? std::strtoull(arguments[1], &end, 10) : 0;
  if (end == nullptr || *end != '\0' || end == arguments[1]) {
    std::fprintf(stderr, "usage: farpage_far_link DELAY_US\n");
    return 2;
  }
  const pid_t a = make_namespace();
  const pid_t b = make_namespace();
  const int end_a = open_end(a, "10.9.0.1", "10.9.0.2");
  const int end_b = open_end(b, "10.9.0.2", "10.9.0.1");
  std::printf("ready %d %d\n", a, b);
  std::fflush(stdout);
  Way there(end_a, end_b, delay_us);
  Way back(end_b, end_a, delay_us);
  std::array<pollfd, 3> events = {{{end_a, POLLIN, 0}, {end_b, POLLIN, 0}, {0, POLLIN, 0}}};
  while ((events[2].revents & (POLLIN | POLLHUP)) == 0) {
    const uint64_t due_us = std::min(there.due_us(), back.due_us());
    const uint64_t now = now_us();
    const uint64_t left_us = due_us == UINT64_MAX ? 1'000'000 : due_us - std::min(due_us, now);
    const timespec left = {static_cast<time_t>(left_us / 1'000'000),
                           static_cast<long>(left_us % 1'000'000 * 1'000)};
    if (::ppoll(events.data(), events.size(), &left, nullptr) < 0 && errno != EINTR) die("ppoll");
    there.take();
    back.take();
    there.bring();
    back.bring();
  }
  for (const pid_t child : {a, b}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return 0;
}
