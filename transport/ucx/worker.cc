#include "transport/ucx/worker.h"

#include <fmt/format.h>
#include <ucs/debug/debug.h>

#include <array>
#include <csignal>
#include <utility>

#include "transport/ucx/log_scope.h"

namespace farpage::ucx {
namespace {

struct Setting {
  const char* name;
  const char* value;
};

constexpr std::array kSettings = {
    // posix and sysv: an endpoint that fails with its peer, without which UCX prefers tcp.
    Setting{"MM_ERROR_HANDLING", "y"},
    // Over rc, keepalive takes a ud lane, and UCX 1.13 aborts the process when an endpoint is
    // closed by force before that lane has said its first word. Deadlines are the caller's.
    Setting{"KEEPALIVE_INTERVAL", "inf"},
    // paths.cc reads what the older protocols have chosen.
    Setting{"PROTO_ENABLE", "n"},
    // A packet that is lost on RoCE is sent again after 67 ms, as verbs does, and not after a
    // second.
    Setting{"RC_TIMEOUT", "67ms"},
    // rc connects by datagrams, of which this check drops all that come over IPv4 on devices such
    // as Soft-RoCE. Those for another process are known by their queue pair's number as it is.
    Setting{"UD_ETH_DGID_CHECK", "n"},
    // Of the two caches of registrations, the one of the device is enough.
    Setting{"RCACHE_ENABLE", "n"},
};

Result<void> configure(ucp_config_t* config, const char* name, const std::string& value) {
  const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
  if (status == UCS_OK) return {};
  return fail_ucx(status, fmt::format("UCX does not take {}={}", name, value));
}

Result<void> configure(ucp_config_t* config, const UcxOptions& options) {
  for (const Setting& setting : kSettings) {
    if (auto set = configure(config, setting.name, setting.value); !set) return set;
  }
  if (!options.transports.empty()) {
    if (auto set = configure(config, "TLS", options.transports); !set) return set;
  }
  if (!options.devices.empty()) return configure(config, "NET_DEVICES", options.devices);
  return {};
}

Code code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return Code::kExhausted;
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return Code::kTimeout;
    case UCS_ERR_INVALID_PARAM:
      return Code::kInvalid;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

tl::unexpected<Error> fail_ucx(ucs_status_t status, const std::string& what) {
  const std::string said = LogScope::last_error();
  return fail(code_of(status), fmt::format("{}: {}{}{}", what, ucs_status_string(status),
                                           said.empty() ? "" : "; UCX says: ", said));
}

Result<std::shared_ptr<Context>> Context::open(const UcxOptions& options) {
  const LogScope log;
  // The process's owner decides what a crash does.
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ucs_debug_disable_signal(signal);
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return fail_ucx(status, "UCX cannot read its settings, UCX_*");
  ucp_context_h context = nullptr;
  auto set = configure(config, options);
  if (set) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    status = ucp_init(&params, config, &context);
  }
  ucp_config_release(config);
  if (!set) return tl::unexpected(set.error());
  if (status != UCS_OK) {
    return fail_ucx(status, fmt::format("UCX finds no transport '{}' on devices '{}' (ucx_info -d "
                                        "lists what there is)",
                                        options.transports.empty() ? "all" : options.transports,
                                        options.devices.empty() ? "all" : options.devices));
  }
  return std::make_shared<Context>(context);
}

size_t Context::request_bytes() const {
  ucp_context_attr_t attributes = {};
  attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
  FARPAGE_CHECK(ucp_context_query(context_, &attributes) == UCS_OK);
  return attributes.request_size;
}

Result<std::unique_ptr<Worker>> Worker::create(std::shared_ptr<Context> context) {
  const LogScope log;
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h handle = nullptr;
  ucs_status_t status = ucp_worker_create(context->get(), &params, &handle);
  if (status != UCS_OK) return fail_ucx(status, "UCX cannot open its devices");
  std::unique_ptr<Worker> worker(new Worker(std::move(context), handle));
  status = ucp_worker_get_efd(handle, &worker->event_fd_);
  if (status != UCS_OK) return fail_ucx(status, "UCX has no event descriptor to wait on");
  return worker;
}

Worker::~Worker() {
  const LogScope log;
  ucp_worker_destroy(worker_);
}

Result<std::string> Worker::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return fail_ucx(status, "UCX cannot tell its address");
  std::string packed(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return packed;
}

Result<ucp_ep_h> Worker::connect(const std::string& peer_address, ucp_err_handler_cb_t on_error,
                                 void* argument) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, argument};
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker_, &params, &endpoint);
  if (status != UCS_OK) return fail_ucx(status, "UCX finds no way to the peer");
  return endpoint;
}

void close_by_force(ucp_ep_h endpoint) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

}  // namespace farpage::ucx
