#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "transport/ucx/ucx_fabric.h"

namespace farpage::ucx {

// `what: what UCX said`.
tl::unexpected<Error> fail_ucx(ucs_status_t status, const std::string& what);

// UCX's transports and devices, as one fabric uses them. Thread-safe.
class Context {
 public:
  static Result<std::shared_ptr<Context>> open(const UcxOptions& options);
  explicit Context(ucp_context_h context) : context_(context) {}
  ~Context() { ucp_cleanup(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ucp_context_h get() const { return context_; }
  // In front of a request's handle, where the caller gives its memory.
  size_t request_bytes() const;

 private:
  ucp_context_h context_;
};

// Endpoints and their progress. One thread at a time.
class Worker {
 public:
  static Result<std::unique_ptr<Worker>> create(std::shared_ptr<Context> context);
  // Ends every operation that is still in flight, and the queue pairs with it.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  int event_fd() const { return event_fd_; }
  // The address that a peer needs to reach it.
  Result<std::string> address() const;
  // False: nothing was to be done.
  bool progress() { return ucp_worker_progress(worker_) != 0; }
  // True: event_fd() becomes readable with the next event. False: there was something to do
  // already. Progress once more: a device may tell nothing of what has come before it was armed.
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK && !progress(); }
  // An endpoint at the peer's worker, which fails when the peer does: then on_error(argument).
  Result<ucp_ep_h> connect(const std::string& peer_address, ucp_err_handler_cb_t on_error,
                           void* argument);

 private:
  Worker(std::shared_ptr<Context> context, ucp_worker_h worker)
      : context_(std::move(context)), worker_(worker) {}

  std::shared_ptr<Context> context_;
  ucp_worker_h worker_;
  int event_fd_ = -1;
};

// Puts the endpoint's queue pairs into the error state; progress() then ends what is on it.
void close_by_force(ucp_ep_h endpoint);

}  // namespace farpage::ucx
