#include "cli/client/own_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "backends/backends.h"
#include "base/memory/system_memory.h"
#include "base/process/fork_program.h"
#include "base/units.h"
#include "cli/client/node_program.h"
#include "net/listening_socket.h"

namespace farpage {
namespace {

constexpr int kStopMs = 3'000;  // for a clean end, before it is killed
constexpr std::string_view kReady = "ready ";
constexpr uint64_t kMostClients = 64;  // beside the other nodes

// Between fork and exec, where only calls that are safe in a signal handler are allowed.
[[noreturn]] void become_node(const char* program, char* const* arguments, int ready_fd,
                              pid_t parent) {
  ::setpgid(0, 0);  // Ctrl-C is for the parent, which then ends its node
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent) {
    ::fcntl(ready_fd, F_SETFD, 0);
    ::execv(program, arguments);
  }
  ::_exit(127);
}

// All that the node says before it closes its end or is ready.
Result<std::string> read_announcement(int fd, const Interrupts& interrupts) {
  std::string text;
  while (!text.ends_with('\n')) {
    std::array<pollfd, 2> waits = {pollfd{fd, POLLIN, 0}, pollfd{interrupts.fd(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR)
      return fail_errno(errno, "poll");
    if (interrupts.interrupted()) return fail(Code::kAborted, "interrupted");
    if (waits[0].revents == 0) continue;
    std::array<char, 4096> part;
    const ssize_t count = ::read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<size_t>(count));
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<OwnNode>> OwnNode::start(std::vector<std::string> words,
                                                const Interrupts& interrupts) {
  auto node = std::unique_ptr<OwnNode>(new OwnNode);
  std::array<int, 2> pipe = {};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  const UniqueFd read_end(pipe[0]);
  UniqueFd write_end(pipe[1]);
  if (auto spawned = node->spawn(std::move(words), write_end); !spawned)
    return tl::unexpected(spawned.error());
  write_end.reset();

  Result<std::string> said = read_announcement(read_end.get(), interrupts);
  if (!said) return tl::unexpected(said.error());
  while (said->ends_with('\n')) said->pop_back();
  if (said->starts_with(kReady)) {
    auto address = parse_address(std::string_view(*said).substr(kReady.size()));
    if (!address) return tl::unexpected(address.error());
    node->address_ = std::move(*address);
    return node;
  }
  return fail(
      Code::kUnavailable,
      fmt::format("the memory node did not start: {}",
                  said->empty() ? "it ended without a message (was it killed for lack of memory?)"
                                : *said));
}

Result<void> OwnNode::spawn(std::vector<std::string> words, const UniqueFd& ready) {
  words.insert(words.begin(), {"farpage", "node", "--ready-fd", std::to_string(ready.get())});
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string program = node_program();
  if (::access(program.c_str(), X_OK) != 0) {
    return fail_errno(errno, fmt::format("cannot start a memory node with {}: install the program "
                                         "'farpage' beside this one",
                                         program));
  }
  const pid_t parent = ::getpid();
  pid_ = fork_program();
  if (pid_ == 0) become_node(program.c_str(), arguments.data(), ready.get(), parent);
  if (pid_ < 0) return fail_errno(errno, "cannot start a process for the memory node");
  return {};
}

OwnNode::~OwnNode() {
  stop();
}

void OwnNode::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd ended = {process.get(), POLLIN, 0};
  int count = 0;
  do {
    count = process.valid() ? ::poll(&ended, 1, kStopMs) : 0;
  } while (count < 0 && errno == EINTR);
  if (count <= 0) ::kill(pid_, SIGKILL);
  reap();
}

void OwnNode::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  reap();
}

void OwnNode::reap() {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Result<std::unique_ptr<OwnNodes>> OwnNodes::start(const OwnNodeOptions& options,
                                                  const Interrupts& interrupts) {
  Result<PrivateFolder> folder = PrivateFolder::create();
  if (!folder) return tl::unexpected(folder.error());
  // Memory that this program's own nodes need, of the memory that there is.
  const uint64_t budget_bytes =
      std::max(std::min<uint64_t>(512 * kMiB, available_memory_bytes() / 4 / options.nodes),
               2 * options.page_bytes);
  auto nodes = std::unique_ptr<OwnNodes>(new OwnNodes(std::move(*folder), budget_bytes / 2));
  std::vector<std::string> names;
  std::vector<std::string> addresses;
  for (uint64_t i = 0; i < options.nodes; ++i) {
    names.push_back(fmt::format("n{}", i));
    auto address = nodes->new_address(names.back(), options.backend->nodes_at);
    if (!address) return tl::unexpected(address.error());
    addresses.push_back(format_address(*address));
    if (options.nodes > 1) {
      nodes->list_ += fmt::format("{}{}={}", i == 0 ? "" : ",", names[i], addresses[i]);
    }
  }
  for (uint64_t i = 0; i < options.nodes; ++i) {
    std::vector<std::string> words = {
        "--backend",    std::string(options.backend->name()),
        "--listen",     addresses[i],
        "--state",      fmt::format("{}/{}.state", nodes->folder_.path(), names[i]),
        "--pool-bytes", std::to_string(options.pool_bytes),
        "--page-bytes", std::to_string(options.page_bytes)};
    BackendSettings settings = {
        {"node.max_clients", std::to_string(kMostClients + options.nodes)},
        {"node.max_staging_bytes", std::to_string(nodes->max_staging_bytes())},
        {"node.staging_budget_bytes", std::to_string(budget_bytes)},
    };
    if (options.nodes > 1) {
      settings.insert(settings.end(), {{"cluster.nodes", nodes->list_},
                                       {"cluster.name", names[i]},
                                       {"cluster.replicas", std::to_string(options.replicas)}});
    }
    for (const BackendRegistration* backend : every_backend()) {
      if (!backend->table) continue;
      const BackendSettings more = backend->table->settings_of_own_node(options.backends);
      settings.insert(settings.end(), more.begin(), more.end());
    }
    for (const auto& [key, value] : settings) {
      words.insert(words.end(), {"--set", fmt::format("{}={}", key, value)});
    }
    auto node = OwnNode::start(std::move(words), interrupts);
    if (!node) return tl::unexpected(node.error());
    nodes->nodes_.push_back(std::move(*node));
  }
  return nodes;
}

// A list has to name its ports before any node listens on them: those are free now.
Result<Address> OwnNodes::new_address(const std::string& name, NodesAt nodes_at) const {
  Address address;
  if (nodes_at == NodesAt::kTcpPort) {
    address.host = "127.0.0.1";
    auto free = listen_on(address);
    if (!free) return tl::unexpected(free.error());
    address.port = free->address.port;
    return address;
  }
  address.path = fmt::format("{}/{}.sock", folder_.path(), name);
  if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(
        Code::kInvalid,
        fmt::format("the path {} is too long for a socket: choose a shorter folder with TMPDIR",
                    address.path));
  }
  return address;
}

std::string OwnNodes::kill_one() {
  nodes_.back()->kill();
  return fmt::format("n{}", nodes_.size() - 1);
}

}  // namespace farpage
