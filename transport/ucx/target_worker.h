#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "transport/ucx/target.h"
#include "transport/ucx/worker.h"

namespace farpage::ucx {

// One worker and one thread for all targets of a fabric: they take up channels and hear
// immediates. Reads and writes pass them by, where UCX does not emulate them. Thread-safe.
class TargetWorker {
 public:
  static Result<std::shared_ptr<TargetWorker>> start(std::shared_ptr<Context> context);
  ~TargetWorker();

  const std::shared_ptr<Context>& context() const { return context_; }
  const std::string& address() const { return address_; }

  // Waits for a peer to take it up.
  void add(std::shared_ptr<TargetState> state);
  // Closes this end: what its peer writes afterwards, or has on its way, lands nowhere.
  void remove(TargetState& state);

 private:
  TargetWorker(std::shared_ptr<Context> context, std::unique_ptr<Worker> worker)
      : context_(std::move(context)), worker_(std::move(worker)) {}

  // The worker, for one of several threads.
  class Turn;

  Result<void> prepare();
  void serve();
  bool progress();
  bool advance();
  void answer(const Offer& hello);
  void close_failed();
  void drain(ucs_status_ptr_t flush);

  static ucs_status_t on_hello(void* argument, const void* header, size_t header_bytes, void* data,
                               size_t data_bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t on_immediate(void* argument, const void* header, size_t header_bytes,
                                   void* data, size_t data_bytes, const ucp_am_recv_param_t* param);
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status);

  std::shared_ptr<Context> context_;
  std::mutex mutex_;  // of what follows, up to the thread
  std::unique_ptr<Worker> worker_;
  std::map<ChannelId, std::shared_ptr<TargetState>> channels_;
  std::vector<Offer> hellos_;
  bool any_failed_ = false;
  std::string address_;
  UniqueFd wake_;
  std::atomic<int> waiting_{0};  // threads that want a turn
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace farpage::ucx
