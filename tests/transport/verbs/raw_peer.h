#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/verbs/connection.h"

namespace farpage::verbs {

// A peer that keeps to no protocol: one queue pair, and requests of any kind, address and key.
class RawPeer {
 public:
  static constexpr std::byte kUntouched{0xEE};
  static constexpr uint64_t kBytes = 64 * 1024;

  explicit RawPeer(const std::string& device);
  // As when its process dies: without a goodbye of its own.
  ~RawPeer();

  // False: the listener at `to` refuses.
  bool connect(const Endpoint& to, std::string_view private_data);
  bool connect(const Endpoint& to, const ConnectWire& introduction);

  // How the request ended at this end; IBV_WC_GENERAL_ERR if it has not within ten seconds. A
  // failure breaks the queue pair.
  ibv_wc_status request(ibv_wr_opcode opcode, uint64_t address, uint32_t key, uint64_t bytes);
  bool untouched() const;  // nothing has landed here

 private:
  std::shared_ptr<const Devices> devices_;
  CompletionQueue completions_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes, kUntouched);
  ibv_mr* registered_ = nullptr;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace farpage::verbs
