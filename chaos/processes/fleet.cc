#include "chaos/processes/fleet.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "base/clock.h"
#include "net/listening_socket.h"

namespace farpage::processes {
namespace {

constexpr uint64_t kStartAgainNs = 200 * kMillisecond;
constexpr uint64_t kNodeEndNs = 20 * kSecond;
constexpr int kEtcdPort = 2379;

}  // namespace

Result<std::unique_ptr<Fleet>> Fleet::start(const FleetOptions& options) {
  auto fleet = std::unique_ptr<Fleet>(new Fleet(options));
  fleet->etcd_program_ = find_program("etcd");
  if (fleet->etcd_program_.empty()) {
    return fail(Code::kUnavailable,
                "there is no etcd here: install Debian's package etcd-server, or put etcd's "
                "folder into PATH");
  }
  if (options.has_network) {
    auto network = Network::make(options.nodes + 1, fleet->file("ip.log"));
    if (!network) return tl::unexpected(network.error());
    fleet->network_ = std::move(*network);
  }
  if (auto chosen = fleet->choose_addresses(); !chosen) return tl::unexpected(chosen.error());
  for (size_t each = fleet->processes_.size(); each-- > 0;) {
    if (auto started = fleet->start(each); !started) return tl::unexpected(started.error());
  }
  return fleet;
}

Result<void> Fleet::choose_addresses() {
  if (network_ != nullptr) {
    endpoints_ = fmt::format("http://{}:{}", Network::address(etcd()), kEtcdPort);
    etcd_peer_ = fmt::format("http://127.0.0.1:{}", kEtcdPort + 1);
    return {};
  }
  Address any;
  any.host = "127.0.0.1";
  auto first = listen_on(any);
  if (!first) return tl::unexpected(first.error());
  auto second = listen_on(any);
  if (!second) return tl::unexpected(second.error());
  endpoints_ = fmt::format("http://127.0.0.1:{}", first->address.port);
  etcd_peer_ = fmt::format("http://127.0.0.1:{}", second->address.port);
  return {};
}

std::string Fleet::address(size_t node) const {
  if (network_ != nullptr) return fmt::format("tcp://{}:7010", Network::address(node));
  return file(fmt::format("n{}.sock", node));
}

std::string Fleet::log(size_t number) const {
  return file(number == etcd() ? "etcd.log" : fmt::format("n{}.log", number));
}

ChildOptions Fleet::etcd_options() const {
  return {etcd_program_,
          {"etcd", "--name", "e0", "--data-dir", file("etcd"), "--listen-client-urls", endpoints_,
           "--advertise-client-urls", endpoints_, "--listen-peer-urls", etcd_peer_,
           "--initial-advertise-peer-urls", etcd_peer_, "--initial-cluster", "e0=" + etcd_peer_,
           "--unsafe-no-fsync"},
          log(etcd()),
          network_ == nullptr ? -1 : network_->host(etcd())};
}

ChildOptions Fleet::node_options(size_t node) const {
  ChildOptions child = {
      options_.program,
      {"farpage", "node", "--listen", address(node), "--state",
       file(fmt::format("n{}.state", node)), "--pool-bytes", std::to_string(options_.pool_bytes),
       "--page-bytes", std::to_string(options_.page_bytes)},
      log(node),
      network_ == nullptr ? -1 : network_->host(node)};
  const std::vector<std::string> settings = {
      fmt::format("node.lease_ms={}", options_.lease_ms),
      "node.reuse_ms=100",
      fmt::format("cluster.name=n{}", node),
      fmt::format("cluster.replicas={}", options_.replicas),
      fmt::format("etcd.endpoints={}", endpoints_),
      fmt::format("etcd.ttl_s={}", options_.ttl_s),
      fmt::format("security.allow_anyone={}", network_ != nullptr),
  };
  for (const std::string& setting : settings) {
    child.words.insert(child.words.end(), {"--set", setting});
  }
  return child;
}

Result<void> Fleet::start(size_t number) {
  auto child = Child::start(number == etcd() ? etcd_options() : node_options(number));
  if (!child) return tl::unexpected(child.error());
  processes_[number].child = std::move(*child);
  return {};
}

Result<void> Fleet::set(const Disturbance& disturbance, bool on) {
  const size_t number = host(disturbance);
  Process& process = processes_[number];
  switch (disturbance.kind) {
    case Kind::kKilled:
    case Kind::kEtcdKilled:
    case Kind::kStopped:
      process.wanted = !on;
      if (!on) return tend();
      order(number, disturbance.kind == Kind::kStopped ? SIGTERM : SIGKILL);
      return {};
    case Kind::kNodePaused:
    case Kind::kEtcdPaused:
      if (process.child) process.child->signal(on ? SIGSTOP : SIGCONT);
      return {};
    case Kind::kLinkDown:
      return network_->set_link(number, !on);
    case Kind::kParted:
    case Kind::kEtcdParted:
      return network_->set_silent(number, on);
  }
  return {};
}

void Fleet::order(size_t number, int signal) {
  Process& process = processes_[number];
  if (!process.child) return;
  process.ordered.insert(signal);
  process.ordered_ns = boottime_clock().now_ns();
  process.child->signal(signal);
  if (signal != SIGKILL) return;
  process.child->wait();
  look_after(number, boottime_clock().now_ns());  // it may have crashed just before
}

Result<void> Fleet::tend() {
  const uint64_t now_ns = boottime_clock().now_ns();
  for (size_t number = 0; number < processes_.size(); ++number) {
    look_after(number, now_ns);
    const Process& process = processes_[number];
    if (process.child || !process.wanted || now_ns < process.start_ns) continue;
    if (auto started = start(number); !started) return started;
  }
  return {};
}

void Fleet::look_after(size_t number, uint64_t now_ns) {
  Process& process = processes_[number];
  if (!process.child) return;
  const std::string name = number == etcd() ? "etcd" : fmt::format("node n{}", number);
  if (const std::optional<int> status = process.child->ended()) {
    process.child.reset();
    // One that has just been started does not hear of SIGTERM, and dies of it.
    const std::set<int> ordered = std::exchange(process.ordered, {});
    const bool is_as_ordered = WIFSIGNALED(*status) && ordered.contains(WTERMSIG(*status));
    if (!is_as_ordered && (WIFSIGNALED(*status) || WEXITSTATUS(*status) > 1)) {
      crashes_.push_back(fmt::format("{} was {}: {}", name, describe_end(*status), log(number)));
    }
    if (ordered.empty()) {
      ++starts_again_;
      process.start_ns = now_ns + kStartAgainNs;
    }
  } else if (!process.ordered.empty() && now_ns > process.ordered_ns + kNodeEndNs) {
    crashes_.push_back(
        fmt::format("{} runs {} s after SIGTERM: {}", name, kNodeEndNs / kSecond, log(number)));
    process.ordered_ns = now_ns;
  }
}

}  // namespace farpage::processes
