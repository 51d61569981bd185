#include "chaos/processes/network.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "chaos/processes/child.h"

namespace farpage::processes {
namespace {

constexpr size_t kFirstAddress = 10;
// The kernel counts the neighbours that all hosts have found, and has no room for those of 32
// hosts. It does not count those that a host is told.
constexpr size_t kMostThatFindEachOther = 24;

UniqueFd own_namespace() {
  return UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

std::string cable(size_t number) {
  return fmt::format("cable{}", number);
}

// Of the host's end of its cable.
std::string ethernet_address(size_t number) {
  return fmt::format("02:00:00:00:00:{:02x}", kFirstAddress + number);
}

}  // namespace

std::string Network::address(size_t number) {
  return fmt::format("198.18.0.{}", kFirstAddress + number);
}

Result<std::unique_ptr<Network>> Network::make(size_t hosts, const std::string& log) {
  auto network = std::unique_ptr<Network>(new Network(log));
  network->ip_ = find_program("ip");
  if (network->ip_.empty()) {
    return fail(Code::kUnavailable,
                "there is no program ip: install Debian's package iproute2, or attack with "
                "--backend shm, which cuts no cables");
  }
  if (::unshare(CLONE_NEWNET) != 0) {
    return fail_errno(errno,
                      "no network namespace can be made here (run it as root, or attack with "
                      "--backend shm, which cuts no cables)");
  }
  auto made = network->make_bridge();
  for (size_t host = 0; made && host < hosts; ++host) made = network->add_host();
  if (made && hosts > kMostThatFindEachOther) made = network->introduce_hosts();
  if (!made) return tl::unexpected(made.error());
  return network;
}

Result<void> Network::ip(const std::string& words, int network) const {
  ChildOptions options = {ip_, {"ip"}, log_, network};
  std::istringstream rest(words);
  for (std::string word; rest >> word;) options.words.push_back(word);
  return run_to_end(options);
}

Result<void> Network::make_bridge() {
  return ip("link set lo up")
      .and_then([&] { return ip("link add bridge type bridge forward_delay 0"); })
      .and_then([&] { return ip("address add 198.18.0.1/24 dev bridge"); })
      .and_then([&] { return ip("link set bridge up"); });
}

Result<void> Network::add_host() {
  const UniqueFd own = own_namespace();
  if (!own.valid() || ::unshare(CLONE_NEWNET) != 0) {
    return fail_errno(errno, "cannot make a network namespace");
  }
  UniqueFd host = own_namespace();
  if (::setns(own.get(), CLONE_NEWNET) != 0) return fail_errno(errno, "cannot leave a namespace");
  const size_t number = hosts_.size();
  const int inside = host.get();
  const std::string end = cable(number);
  hosts_.push_back(std::move(host));
  return ip(fmt::format("link add {} type veth peer name cable address {} netns /proc/{}/fd/{}",
                        end, ethernet_address(number), ::getpid(), inside))
      .and_then([&] { return ip(fmt::format("link set {} master bridge up", end)); })
      .and_then([&] { return ip("link set lo up", inside); })
      .and_then(
          [&] { return ip(fmt::format("address add {}/24 dev cable", address(number)), inside); })
      .and_then([&] { return ip("link set cable up", inside); });
}

Result<void> Network::introduce_hosts() const {
  const std::string path = log_ + ".hosts";
  std::ofstream file(path);
  for (size_t number = 0; number < hosts_.size(); ++number) {
    file << fmt::format("neigh replace {} lladdr {} dev cable nud permanent\n", address(number),
                        ethernet_address(number));
  }
  file.close();
  if (!file) return fail(Code::kUnavailable, "cannot write " + path);
  for (const UniqueFd& host : hosts_) {
    if (auto told = run_to_end({ip_, {"ip", "-batch", path}, log_, host.get()}); !told) return told;
  }
  return {};
}

Result<void> Network::set_link(size_t number, bool up) {
  return ip(fmt::format("link set {} {}", cable(number), up ? "up" : "down"));
}

Result<void> Network::set_silent(size_t number, bool silent) {
  return ip(fmt::format("link set {} {}", cable(number), silent ? "nomaster" : "master bridge"));
}

}  // namespace farpage::processes
