#include "transport/ucx/target_worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/clock.h"
#include "transport/ucx/log_scope.h"

namespace farpage::ucx {
namespace {

constexpr int kTargetRounds = 64;
// A silent peer must hold up no other: its queue pair is in the error state by then.
constexpr uint64_t kTargetDrainNs = kSecond;
constexpr int kDrainLookMs = 1;

}  // namespace

class TargetWorker::Turn {
 public:
  explicit Turn(TargetWorker& worker) : worker_(worker) {
    worker_.waiting_.fetch_add(1);
    worker_.mutex_.lock();
  }
  ~Turn() {
    worker_.mutex_.unlock();
    worker_.waiting_.fetch_sub(1);
    // That call may have made progress that the thread sleeps through.
    ::eventfd_write(worker_.wake_.get(), 1);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  TargetWorker& worker_;
  LogScope log_;
};

Result<std::shared_ptr<TargetWorker>> TargetWorker::start(std::shared_ptr<Context> context) {
  const LogScope log;
  auto worker = Worker::create(context);
  if (!worker) return tl::unexpected(worker.error());
  std::shared_ptr<TargetWorker> started(new TargetWorker(std::move(context), std::move(*worker)));
  if (auto prepared = started->prepare(); !prepared) return tl::unexpected(prepared.error());
  return started;
}

Result<void> TargetWorker::prepare() {
  for (const unsigned message : {kHelloMessage, kImmediateMessage}) {
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = message;
    handler.cb = message == kHelloMessage ? on_hello : on_immediate;
    handler.arg = this;
    const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_->get(), &handler);
    if (status != UCS_OK) return fail_ucx(status, "UCX takes no active messages");
  }
  auto address = worker_->address();
  if (!address) return tl::unexpected(address.error());
  address_ = std::move(*address);
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return fail_errno(errno, "eventfd");
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error& error) {
    return fail(Code::kExhausted, fmt::format("cannot start the thread that serves UCX ({}): raise "
                                              "the limit on processes (ulimit -u, pids.max)",
                                              error.what()));
  }
  return {};
}

TargetWorker::~TargetWorker() {
  stopped_ = true;
  if (!thread_.joinable()) return;
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void TargetWorker::serve() {
  const LogScope log;
  while (!stopped_) {
    bool sleeps = false;
    {
      std::lock_guard lock(mutex_);
      sleeps = !advance() && worker_->arm();
    }
    while (waiting_ > 0 && !stopped_) std::this_thread::yield();
    if (!sleeps) continue;
    std::array<pollfd, 2> awaited = {{{worker_->event_fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    ::poll(awaited.data(), awaited.size(), -1);
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
  }
}

// Others want their turn though what comes in never ends. False: there was nothing to do.
bool TargetWorker::progress() {
  int round = 0;
  while (round < kTargetRounds && worker_->progress()) ++round;
  return round > 0;
}

// As progress(), and what has come up in any turn.
bool TargetWorker::advance() {
  const bool any = progress();
  for (const Offer& hello : std::exchange(hellos_, {})) answer(hello);
  if (std::exchange(any_failed_, false)) close_failed();
  return any;
}

ucs_status_t TargetWorker::on_hello(void* argument, const void*, size_t, void* data,
                                    size_t data_bytes, const ucp_am_recv_param_t* param) {
  auto& worker = *static_cast<TargetWorker*>(argument);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;  // nothing of ours
  auto hello = parse_offer({static_cast<const char*>(data), data_bytes});
  if (hello) worker.hellos_.push_back(std::move(*hello));
  return UCS_OK;
}

// Connects back, which makes the endpoint that UCX has made by itself one that can be closed.
void TargetWorker::answer(const Offer& hello) {
  const auto found = channels_.find(hello.channel);
  TargetState* state = found == channels_.end() ? nullptr : found->second.get();
  if (state != nullptr && (state->is_taken || state->purpose != hello.purpose)) state = nullptr;
  auto endpoint = worker_->connect(hello.address, on_error, state == nullptr ? nullptr : this);
  if (!endpoint) return;
  static constexpr Welcome kRefused = {0};
  static constexpr Welcome kAccepted = {1};
  const Welcome& welcome = state == nullptr ? kRefused : kAccepted;
  ucp_request_param_t param = {};
  const ucs_status_ptr_t sent =
      ucp_am_send_nbx(*endpoint, kWelcomeMessage, &welcome, sizeof welcome, nullptr, 0, &param);
  if (UCS_PTR_IS_PTR(sent)) ucp_request_free(sent);
  if (state != nullptr) {
    state->is_taken = true;
    state->endpoint = *endpoint;
    return;
  }
  const ucs_status_ptr_t closing = ucp_ep_close_nbx(*endpoint, &param);
  if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
}

ucs_status_t TargetWorker::on_immediate(void* argument, const void* header, size_t header_bytes,
                                        void*, size_t, const ucp_am_recv_param_t*) {
  auto& worker = *static_cast<TargetWorker*>(argument);
  Immediate immediate;
  if (header_bytes != sizeof immediate) return UCS_OK;
  std::memcpy(&immediate, header, sizeof immediate);
  const auto found = worker.channels_.find(immediate.channel);
  if (found == worker.channels_.end()) return UCS_OK;
  if (!found->second->push(immediate.value)) {
    found->second->has_failed = true;
    worker.any_failed_ = true;
  }
  return UCS_OK;
}

void TargetWorker::on_error(void* argument, ucp_ep_h endpoint, ucs_status_t) {
  auto* worker = static_cast<TargetWorker*>(argument);
  if (worker == nullptr) return;
  for (const auto& [id, state] : worker->channels_)
    state->has_failed |= state->endpoint == endpoint;
  worker->any_failed_ = true;
}

void TargetWorker::close_failed() {
  for (const auto& [id, state] : channels_) {
    if (!state->has_failed || state->endpoint == nullptr) continue;
    close_by_force(std::exchange(state->endpoint, nullptr));
  }
}

void TargetWorker::add(std::shared_ptr<TargetState> state) {
  const Turn turn(*this);
  channels_.emplace(state->id, std::move(state));
}

void TargetWorker::remove(TargetState& state) {
  ucs_status_ptr_t flush = nullptr;
  {
    const Turn turn(*this);
    if (channels_.erase(state.id) == 0 || state.endpoint == nullptr) return;
    close_by_force(std::exchange(state.endpoint, nullptr));
    ucp_request_param_t param = {};
    flush = ucp_worker_flush_nbx(worker_->get(), &param);
  }
  if (UCS_PTR_IS_PTR(flush)) drain(flush);
}

// UCX ends a closed endpoint's queue pairs as it makes progress; a flush of the worker waits for
// that, and for what is under way to others: 1.13 flushes no endpoint that was closed by force, and
// one that is closed otherwise keeps its queue pair. So the worker is everybody's meanwhile.
void TargetWorker::drain(ucs_status_ptr_t flush) {
  const uint64_t drained_by = boottime_clock().now_ns() + kTargetDrainNs;
  for (bool ended = false; !ended; ::poll(nullptr, 0, ended ? 0 : kDrainLookMs)) {
    const Turn turn(*this);
    progress();
    ended = ucp_request_check_status(flush) != UCS_INPROGRESS ||
            boottime_clock().now_ns() >= drained_by;
    if (ended) ucp_request_free(flush);
  }
}

}  // namespace farpage::ucx
