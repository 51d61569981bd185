#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage::processes {

// This process in a network namespace of its own, with a bridge, and other namespaces, each at the
// other end of a cable to it: hosts. None has a name, so they and their cables are gone with the
// process and those that run in them, however they end.
class Network {
 public:
  // Before the process has any other thread, each of which would stay where it is. Needs root.
  static Result<std::unique_ptr<Network>> make(size_t hosts, const std::string& log);

  int host(size_t number) const { return hosts_[number].get(); }
  static std::string address(size_t number);  // of the host: 198.18.0.x

  // The cable's link: down, the host sees that it is.
  Result<void> set_link(size_t number, bool up);
  // Everything that goes through the cable is lost, while it looks well at the host.
  Result<void> set_silent(size_t number, bool silent);

 private:
  explicit Network(std::string log) : log_(std::move(log)) {}
  Result<void> ip(const std::string& words, int network = -1) const;
  Result<void> make_bridge();
  Result<void> add_host();
  Result<void> introduce_hosts() const;

  std::string log_;
  std::string ip_;
  std::vector<UniqueFd> hosts_;
};

}  // namespace farpage::processes
