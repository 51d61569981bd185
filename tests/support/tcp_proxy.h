#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <thread>

#include "base/unique_fd.h"
#include "net/address/address.h"

namespace farpage {

// A piece of network between a client and a node that can be broken: connections can be cut, and
// their bytes held back while both ends stay connected.
class TcpProxy {
 public:
  explicit TcpProxy(const Address& node);
  ~TcpProxy();

  Address address() const { return address_; }

  // Cuts every connection now.
  void cut() { cuts_.fetch_add(1); }
  // Cuts every connection as soon as so many bytes more have come from the node.
  void cut_after(uint64_t bytes) { cut_at_ = from_node_.load() + bytes; }
  // Holds all bytes back, also of connections that come meanwhile.
  void hold(bool held) { held_ = held; }

  uint64_t connections() const { return connections_; }

 private:
  struct Pair {
    UniqueFd client;
    UniqueFd node;
  };

  void run();
  void accept();
  bool forward(int from, int to, bool from_node);

  Address node_;
  Address address_;
  UniqueFd listening_;
  std::list<Pair> pairs_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> held_{false};
  std::atomic<int> cuts_{0};
  std::atomic<uint64_t> from_node_{0};
  std::atomic<uint64_t> cut_at_{UINT64_MAX};
  std::atomic<uint64_t> connections_{0};
  std::thread thread_;
};

}  // namespace farpage
