#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "client/farpage.h"
#include "tests/support/cluster.h"

namespace farpage {
namespace {

struct End {
  int status = 0;  // of waitpid()
  std::string said;
};

// Children of a process that has no other thread. All run at one time: some wait long for a node.
class Children {
 public:
  template <typename Work>
  void start(const Work& work) {
    std::array<int, 2> ends = {};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::string said = work();
      const ssize_t written = ::write(ends[1], said.data(), said.size());
      ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    running_.emplace_back(child, UniqueFd(ends[0]));
  }
  std::vector<End> wait() {
    std::vector<End> all;
    for (const auto& [child, from] : running_) {
      End& end = all.emplace_back();
      std::array<char, 4096> part = {};
      for (ssize_t got = 0; (got = ::read(from.get(), part.data(), part.size())) > 0;) {
        end.said.append(part.data(), static_cast<size_t>(got));
      }
      ::waitpid(child, &end.status, 0);
    }
    running_.clear();
    return all;
  }

 private:
  std::vector<std::pair<pid_t, UniqueFd>> running_;
};

OpenOptions embedded() {
  OpenOptions options;
  options.embedded = true;
  options.embedded_node = {.name = "", .pool_bytes = 8 * kMiB, .page_bytes = 4 * kKiB};
  options.client.connect_ms = 5'000;  // so that a busy machine is no reason
  return options;
}

std::string open(const OpenOptions& options) {
  const auto opened = Farpage::open(options);
  if (opened) return "opened";
  return std::string(code_name(opened.error().code)) + ": " + opened.error().message;
}

// The first ones want something, and say which limit to raise; the last ones open.
void expect_to_end_well(const std::vector<End>& ends, const std::string& limit) {
  for (size_t i = 0; i < ends.size(); ++i) {
    const End& end = ends[i];
    EXPECT_TRUE(WIFEXITED(end.status)) << i << " ended by signal " << WTERMSIG(end.status);
    if (end.said == "opened") continue;
    EXPECT_TRUE(end.said.starts_with("exhausted: ")) << i << " " << end.said;
    EXPECT_NE(end.said.find(limit), std::string::npos) << i << " " << end.said;
  }
  EXPECT_NE(ends.front().said, "opened");
  EXPECT_EQ(ends.back().said, "opened");
}

std::vector<End> sweep_descriptors(const OpenOptions& options) {
  constexpr rlim_t kMost = 48;
  Children children;
  for (rlim_t more = 0; more < kMost; ++more) {
    children.start([&] {
      const UniqueFd next(::dup(STDERR_FILENO));
      const rlimit limit = {static_cast<rlim_t>(next.get()) + more,
                            static_cast<rlim_t>(next.get()) + more};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      return open(options);
    });
  }
  return children.wait();
}

// Without a stack there is no thread: memory for so many stacks, which are larger than all else.
void allow_threads(uint64_t count) {
  constexpr uint64_t kStackBytes = 4 * kGiB;
  ::mallopt(M_ARENA_MAX, 1);
  pthread_attr_t greedy;
  ::pthread_attr_init(&greedy);
  ::pthread_attr_setstacksize(&greedy, kStackBytes);
  ::pthread_setattr_default_np(&greedy);
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const uint64_t bytes = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) +
                         count * kStackBytes + kStackBytes / 2;
  const rlimit limit = {bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

std::vector<End> sweep_threads(const OpenOptions& options) {
  constexpr uint64_t kMost = 16;
  Children children;
  for (uint64_t count = 0; count < kMost; ++count) {
    children.start([&] {
      allow_threads(count);
      return open(options);
    });
  }
  return children.wait();
}

// A node in a process of its own.
class OutsideNode {
 public:
  explicit OutsideNode(Path path) {
    EXPECT_EQ(::pipe(address_.data()), 0);
    EXPECT_EQ(::pipe(end_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) serve(path);
    ::close(end_[0]);
  }
  ~OutsideNode() {
    ::close(end_[1]);
    ::waitpid(child_, nullptr, 0);
  }

  std::string address() const {
    std::array<char, 4096> said = {};
    const ssize_t bytes = ::read(address_[0], said.data(), said.size());
    return {said.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0};
  }

 private:
  [[noreturn]] void serve(Path path) const {
    ::close(end_[1]);
    {
      const Cluster cluster(path);
      const std::string address = format_address(cluster.address());
      char none = 0;
      if (::write(address_[1], address.data(), address.size()) > 0) ::read(end_[0], &none, 1);
    }
    ::_exit(0);
  }

  std::array<int, 2> address_ = {};
  std::array<int, 2> end_ = {};
  pid_t child_ = 0;
};

OpenOptions of(const std::string& address) {
  OpenOptions options;
  options.node = address;
  options.client.connect_ms = 5'000;
  options.client.staging_bytes = kMiB;
  return options;
}

TEST(OpenWithFewDescriptors, EndsInAClientOrAnErrorWithANodeInside) {
  expect_to_end_well(sweep_descriptors(embedded()), "(ulimit -n)");
}

TEST(OpenWithFewDescriptors, EndsInAClientOrAnErrorWithANodeOnThisHost) {
  const OutsideNode node(Path::kShm);
  expect_to_end_well(sweep_descriptors(of(node.address())), "(ulimit -n)");
}

TEST(OpenWithFewDescriptors, EndsInAClientOrAnErrorWithANodeByTcp) {
  const OutsideNode node(Path::kTcp);
  expect_to_end_well(sweep_descriptors(of(node.address())), "(ulimit -n)");
}

TEST(OpenWithFewThreads, EndsInAClientOrAnErrorWithANodeInside) {
  expect_to_end_well(sweep_threads(embedded()), "(ulimit -u)");
}

TEST(OpenWithFewThreads, EndsInAClientOrAnErrorWithANodeOnThisHost) {
  const OutsideNode node(Path::kShm);
  expect_to_end_well(sweep_threads(of(node.address())), "(ulimit -u)");
}

TEST(OpenWithFewThreads, EndsInAClientOrAnErrorWithANodeByTcp) {
  const OutsideNode node(Path::kTcp);
  expect_to_end_well(sweep_threads(of(node.address())), "(ulimit -u)");
}

}  // namespace
}  // namespace farpage
