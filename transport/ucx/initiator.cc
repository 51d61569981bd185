#include "transport/ucx/initiator.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "net/stream/stream.h"
#include "transport/ucx/log_scope.h"

namespace farpage::ucx {
namespace {

// How long a wait keeps its core when little is under way: a sleeping thread is woken later than
// that in a virtual machine.
constexpr uint64_t kSpinNs = 50 * kMicrosecond;
constexpr uint64_t kSpinOperations = 4;
constexpr uint64_t kSpinBytes = 128 * kKiB;
// Within it a queue pair in the error state gives back what it holds; afterwards it is destroyed.
constexpr uint64_t kInitiatorDrainNs = kSecond;
constexpr int kInitiatorRounds = 16;
constexpr size_t kRequestAlignment = 64;

bool is_write(const Operation& operation) {
  return operation.kind == OperationKind::kWrite;
}

}  // namespace

UcxInitiator::UcxInitiator(std::shared_ptr<LocalMemory> local, std::shared_ptr<PathBook> paths,
                           std::unique_ptr<Worker> worker, size_t request_bytes)
    : local_(std::move(local)),
      paths_(std::move(paths)),
      worker_(std::move(worker)),
      request_stride_(round_up(request_bytes, kRequestAlignment)),
      request_memory_(new std::byte[request_stride_ * (2 * kMaxInFlight + 2) + kRequestAlignment]),
      flights_(kMaxInFlight) {
  const auto start = reinterpret_cast<uintptr_t>(request_memory_.get());
  auto* next = request_memory_.get() + (round_up(start, kRequestAlignment) - start);
  const auto give_memory = [&](Request& request) {
    next += request_stride_;  // UCX keeps what it needs in front of the handle
    request.channel = this;
    request.memory = next;
  };
  for (Flight& flight : flights_) {
    for (Request& request : flight.transfers) give_memory(request);
  }
  give_memory(flush_);
  give_memory(message_);
  local_->add(*this);
}

UcxInitiator::~UcxInitiator() {
  close();
  local_->remove(*this);
}

bool UcxInitiator::Imported::is_registered() const {
  return registered == nullptr ||
         std::atomic_ref<const uint32_t>(*registered).load(std::memory_order_acquire) == 1;
}

Operation& UcxInitiator::next() {
  FARPAGE_CHECK(written_ - polled_ < kMaxInFlight);
  return flight(written_++).operation;
}

Status UcxInitiator::post() {
  const LogScope log;
  while (posted_ != written_) {
    Flight& next = flight(posted_++);
    start(next);
    if (is_write(next.operation)) last_write_ = posted_;
  }
  if (state_ == State::kOpen && failure_ == UCS_OK) advance_writes();
  if (state_ == State::kOpen && failure_ == UCS_OK) return {};
  return {Code::kUnavailable, -failure_, "the channel is closed"};
}

Outcome UcxInitiator::fate_of(const Operation& operation) {
  if (state_ != State::kOpen || failure_ != UCS_OK) return Outcome::kAborted;
  const Imported& imported = imported_[operation.remote.index];
  check_use(operation, imported.use);
  const bool may = may_begin(operation, *local_->registrations());
  if (refusals_.refuses(operation, may)) return Outcome::kRefused;
  return imported.is_registered() ? Outcome::kOk : Outcome::kFailed;
}

void UcxInitiator::start(Flight& flight) {
  const Operation& operation = flight.operation;
  flight.fate = fate_of(operation);
  for (Request& transfer : flight.transfers) transfer.status = UCS_OK;
  if (flight.fate != Outcome::kOk) return;
  const Imported& imported = imported_[operation.remote.index];
  uint64_t remote = imported.address + operation.remote_offset;
  for (int i = 0; i < operation.local_count; ++i) {
    const Slice& local = operation.local[i];
    if (local.bytes == 0) continue;
    Request& transfer = flight.transfers[i];
    const ucp_request_param_t param = describe(transfer);
    note(transfer,
         is_write(operation)
             ? ucp_put_nbx(endpoint_, local.data, local.bytes, remote, imported.key.get(), &param)
             : ucp_get_nbx(endpoint_, local.data, local.bytes, remote, imported.key.get(), &param));
    if (transfer.is_under_way) {
      transfer.local_key.store(local.local_key, std::memory_order_relaxed);
    }
    remote += local.bytes;
  }
}

ucp_request_param_t UcxInitiator::describe(Request& request) const {
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.request = request.memory;
  param.cb.send = on_request;
  param.user_data = &request;
  return param;
}

void UcxInitiator::note(Request& request, ucs_status_ptr_t started) {
  request.status = UCS_OK;
  request.is_under_way = UCS_PTR_IS_PTR(started);
  if (request.is_under_way) {
    ++under_way_;
  } else if (UCS_PTR_IS_ERR(started)) {
    request.status = UCS_PTR_STATUS(started);
    if (failure_ == UCS_OK) failure_ = request.status;
  }
}

void UcxInitiator::on_request(void*, ucs_status_t status, void* user_data) {
  auto& request = *static_cast<Request*>(user_data);
  request.channel->end(request, status);
}

void UcxInitiator::end(Request& request, ucs_status_t status) {
  request.is_under_way = false;
  request.status = status;
  request.local_key.store(0, std::memory_order_relaxed);
  --under_way_;
  if (status != UCS_OK && failure_ == UCS_OK) failure_ = status;
}

// Writes wait for a flush behind them; then those that it covers have their immediates sent, one
// after the other, so that they arrive in their order.
void UcxInitiator::advance_writes() {
  while (failure_ == UCS_OK && !flush_.is_under_way && !message_.is_under_way) {
    flushed_ = flushing_;
    signalled_ = std::max(signalled_, polled_);
    if (signalled_ < flushed_) {
      const Flight& next = flight(signalled_++);
      const bool tells = is_write(next.operation) && next.operation.has_immediate;
      if (tells && next.fate == Outcome::kOk) send_immediate(next.operation);
    } else if (flushed_ < last_write_) {
      start_flush();
    } else {
      return;
    }
  }
}

void UcxInitiator::start_flush() {
  const ucp_request_param_t param = describe(flush_);
  flushing_ = posted_;
  note(flush_, ucp_ep_flush_nbx(endpoint_, &param));
}

void UcxInitiator::send_immediate(const Operation& operation) {
  immediate_ = {id_, operation.immediate};
  ucp_request_param_t param = describe(message_);
  note(message_, ucp_am_send_nbx(endpoint_, kImmediateMessage, &immediate_, sizeof immediate_,
                                 nullptr, 0, &param));
}

bool UcxInitiator::moved(const Flight& flight) const {
  return std::ranges::all_of(flight.transfers, [](const Request& transfer) {
    return !transfer.is_under_way && transfer.status == UCS_OK;
  });
}

bool UcxInitiator::has_ended(uint64_t number) {
  const Flight& of = flight(number);
  if (of.fate != Outcome::kOk) return true;
  if (!moved(of)) return false;
  if (!is_write(of.operation)) return true;
  // The last one that was signalled may still have its immediate under way.
  return number < signalled_ && !(number + 1 == signalled_ && message_.is_under_way);
}

Completion UcxInitiator::completion_of(uint64_t number) {
  const Flight& of = flight(number);
  Completion completion;
  completion.tag = of.operation.tag;
  if (of.fate != Outcome::kOk) {
    completion.outcome = of.fate;
    completion.vendor = of.fate == Outcome::kFailed ? -UCS_ERR_CONNECTION_RESET : 0;
  } else if (has_ended(number) &&
             (!is_write(of.operation) || number + 1 < signalled_ || message_.status == UCS_OK)) {
    completion.outcome = Outcome::kOk;
  } else if (state_ == State::kBroken && !std::exchange(told_failure_, true)) {
    // The first of those that a broken connection leaves behind has failed, the rest with it.
    completion.outcome = Outcome::kFailed;
    completion.vendor = -failure_;
  } else {
    completion.outcome = Outcome::kAborted;
  }
  return completion;
}

size_t UcxInitiator::poll(std::span<Completion> completions) {
  const LogScope log;
  if (state_ == State::kOpen) {
    for (int round = 0; round < kInitiatorRounds && worker_->progress(); ++round) {
    }
    advance_writes();
    if (failure_ != UCS_OK) break_off();
  }
  size_t count = 0;
  while (count < completions.size() && polled_ != posted_) {
    if (state_ == State::kOpen && !has_ended(polled_)) break;
    completions[count++] = completion_of(polled_);
    ++polled_;
  }
  return count;
}

void UcxInitiator::wait(uint64_t deadline_ns) {
  if (state_ != State::kOpen || failure_ != UCS_OK || has_news()) return;
  const LogScope log;
  if (const uint64_t spin = spin_ns(); spin > 0) {
    const uint64_t spin_until = std::min(deadline_ns, boottime_clock().now_ns() + spin);
    while (boottime_clock().now_ns() < spin_until) {
      worker_->progress();
      advance_writes();
      if (failure_ != UCS_OK || has_news()) return;
      ::sched_yield();  // to the peer's thread, if it is on this core
    }
  }
  if (arm() != 0) wait_for(descriptor(), POLLIN, deadline_ns);
}

int UcxInitiator::descriptor() const {
  return worker_ == nullptr ? -1 : worker_->event_fd();
}

uint64_t UcxInitiator::arm() {
  if (state_ != State::kOpen || failure_ != UCS_OK || has_news()) return 0;
  const LogScope log;
  return worker_->arm() ? kNever : 0;
}

uint64_t UcxInitiator::spin_ns() const {
  return expects_soon() ? kSpinNs : 0;
}

// Little is under way, so it may be here before a sleeping thread could be woken.
bool UcxInitiator::expects_soon() const {
  uint64_t bytes = 0;
  if (posted_ - polled_ > kSpinOperations) return false;
  for (uint64_t number = polled_; number != posted_; ++number) {
    bytes += flights_[number % kMaxInFlight].operation.bytes();
  }
  return bytes > 0 && bytes <= kSpinBytes;
}

bool UcxInitiator::uses(uint64_t local_key) const {
  return std::ranges::any_of(flights_, [local_key](const Flight& flight) {
    return std::ranges::any_of(flight.transfers, [local_key](const Request& transfer) {
      return transfer.local_key.load(std::memory_order_relaxed) == local_key;
    });
  });
}

void UcxInitiator::break_off() {
  if (failure_ == UCS_OK) failure_ = UCS_ERR_CANCELED;
  end_operations();
  if (state_ == State::kOpen) state_ = State::kBroken;
}

void UcxInitiator::close() {
  end_operations();
  state_ = State::kClosed;
}

// Afterwards UCX touches no memory: what has not ended by itself has ended with its queue pair.
void UcxInitiator::end_operations() {
  if (worker_ == nullptr) return;
  const LogScope log;
  if (endpoint_ != nullptr) close_by_force(std::exchange(endpoint_, nullptr));
  const uint64_t drained_by = boottime_clock().now_ns() + kInitiatorDrainNs;
  while (under_way_ > 0 && boottime_clock().now_ns() < drained_by) {
    if (!worker_->progress()) ::sched_yield();
  }
  imported_.clear();
  worker_.reset();
  if (under_way_ == 0) return;
  for (Flight& flight : flights_) {
    for (Request& transfer : flight.transfers) {
      if (transfer.is_under_way) end(transfer, UCS_ERR_CANCELED);
    }
  }
  for (Request* request : {&flush_, &message_}) {
    if (request->is_under_way) end(*request, UCS_ERR_CANCELED);
  }
}

}  // namespace farpage::ucx
