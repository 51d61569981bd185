#include "transport/verbs/initiator.h"

#include <endian.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "net/stream/stream.h"
#include "transport/peer_memory.h"

namespace farpage::verbs {
namespace {

// One work request moves no more, so that a large page does not hold the wire while others wait.
constexpr uint64_t kPartBytes = 256 * kKiB;
constexpr uint64_t kDialNs = 2 * kSecond;  // for one attempt
// A queue pair in error flushes within a millisecond. One that does not is taken from its device.
constexpr uint64_t kDrainNs = 20 * kMillisecond;
// Of a path, while another one works; less than `read_window`, after which a page could not be used
// any more.
constexpr uint64_t kSilentNs = 60 * kMillisecond;
constexpr uint64_t kProvenBytes = 1 * kMiB;  // a path that carries nothing large may still connect
constexpr uint64_t kLookForEventsNs = kMillisecond;

// Errors of the operation itself; another path would refuse it again.
bool is_refusal(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
      return true;
    default:
      return false;
  }
}

bool is_read(const Operation& operation) {
  return operation.kind == OperationKind::kRead;
}

}  // namespace

VerbsInitiator::VerbsInitiator(InitiatorEnd end) : end_(std::move(end)), flights_(kMaxInFlight) {
  for (uint16_t number = 0; number < kMaxInFlight; ++number) free_.push(number);
  for (size_t path = 0; path < end_.endpoints.size(); ++path) {
    paths_[path].dialling = end_.dialled[path];
  }
  look_at_paths();
  if (!end_.one_path) return;
  end_.arrivals->close();
  bool found = false;
  for (Path& path : paths_) {
    path.dialling = false;
    if (found && path.queue != nullptr) drop(path.queue);
    found |= path.queue != nullptr;
  }
}

Result<RemoteRegion> VerbsInitiator::import_region(RegionExport region, const RegionUse& use) {
  const auto refuse = [](const char* why) {
    return fail(Code::kProtocol, std::string("the peer's region is refused: ") + why);
  };
  if (const char* why = why_unusable(region, use)) return refuse(why);
  const auto decoded = decode_region(region.opaque, region.bytes);
  if (!decoded) return refuse("verbs does not understand it");
  if (decoded->paths != end_.endpoints.size()) return refuse("it has other paths than its channel");
  imported_.push_back({*decoded, use});
  return RemoteRegion{static_cast<uint32_t>(imported_.size() - 1)};
}

Operation& VerbsInitiator::next() {
  const uint16_t number = free_.pop();
  written_.push(number);
  return flights_[number].operation;
}

Status VerbsInitiator::post() {
  while (!written_.empty()) {
    const uint16_t number = written_.pop();
    const Operation& operation = flights_[number].operation;
    if (state_ == State::kOpen) check_use(operation, imported_[operation.remote.index].use);
    flights_[number].begin(0);
    unsent_.push(number);
  }
  if (state_ == State::kOpen) {
    send();
    return {};
  }
  end_unsent();
  return {Code::kUnavailable, 0, "the channel is closed"};
}

// As much as the paths have room for.
void VerbsInitiator::send() {
  while (!unsent_.empty()) {
    const auto path = next_path();
    if (!path) return;
    next_ = *path + 1;
    const size_t working = working_paths();
    fill(*path, (unsent_.size() + working - 1) / working);
  }
}

// That with the least under way; what has been begun on one goes on there.
std::optional<size_t> VerbsInitiator::next_path() const {
  const Flight& first = flights_[unsent_.front()];
  std::optional<size_t> best;
  for (size_t i = 0; i < end_.endpoints.size(); ++i) {
    const size_t path = (next_ + i) % end_.endpoints.size();
    if (!works(paths_[path]) || paths_[path].queue->room() == 0) continue;
    if (first.sent_bytes > 0 && first.path != path) continue;
    if (!best || paths_[path].queue->bytes_under_way() < paths_[*best].queue->bytes_under_way()) {
      best = path;
    }
  }
  return best;
}

size_t VerbsInitiator::working_paths() const {
  return static_cast<size_t>(std::count_if(paths_.begin(), paths_.end(),
                                           [this](const Path& path) { return works(path); }));
}

// The first `most` operations that wait, as far as there is room, with one doorbell.
void VerbsInitiator::fill(size_t path, size_t most) {
  SendQueue& queue = *paths_[path].queue;
  const size_t last = unsent_.size() - std::min(most, unsent_.size());
  while (unsent_.size() > last && queue.room() > 0) {
    const uint16_t number = unsent_.front();
    Flight& flight = flights_[number];
    flight.path = static_cast<uint8_t>(path);
    const bool may = end_.keys->may_begin(flight.operation);
    if (refusals_.refuses(flight.operation, may)) {
      unsent_.pop();
      flight.refused = true;
      flight.sent = true;
      if (flight.works == 0) operation_ended(number);
    } else if (flight.operation.bytes() > kPartBytes) {
      add_part(queue, number);
    } else {
      add_merged(queue);
    }
  }
  queue.ring();
}

ibv_send_wr VerbsInitiator::request_of(const Flight& flight, size_t path) const {
  const Operation& operation = flight.operation;
  const RegionWire& region = imported_[operation.remote.index].region;
  ibv_send_wr request = {};
  request.opcode = is_read(operation) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = region.address + operation.remote_offset + flight.sent_bytes;
  request.wr.rdma.rkey = region.keys[path];
  return request;
}

void VerbsInitiator::add_part(SendQueue& queue, uint16_t number) {
  Flight& flight = flights_[number];
  const uint64_t left = flight.operation.bytes() - flight.sent_bytes;
  const uint64_t bytes = std::min(left, kPartBytes);
  std::array<ibv_sge, 2> slices;
  const size_t count =
      end_.keys->gather(flight.operation, flight.sent_bytes, bytes, queue.device(), slices);
  ibv_send_wr request = request_of(flight, flight.path);
  if (bytes == left && flight.operation.has_immediate) {
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htobe32(flight.operation.immediate);
  }
  flight.sent_bytes += bytes;
  flight.sent = bytes == left;
  ++flight.works;
  if (flight.sent) unsent_.pop();
  SendQueue::Work work;
  work.operations[work.count++] = number;
  queue.add(work, request, std::span(slices).first(count));
}

// The first that waits, and those behind it that read on where it ends, as one work request.
void VerbsInitiator::add_merged(SendQueue& queue) {
  const Flight& first = flights_[unsent_.front()];
  const uint8_t path = first.path;
  ibv_send_wr request = request_of(first, path);
  if (first.operation.has_immediate) {
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htobe32(first.operation.immediate);
  }
  std::array<ibv_sge, SendQueue::kMostSlices> slices;
  size_t slice_count = 0;
  uint64_t bytes = 0;
  SendQueue::Work work;
  do {
    const uint16_t number = unsent_.pop();
    Flight& flight = flights_[number];
    const Operation& operation = flight.operation;
    slice_count += end_.keys->gather(operation, 0, operation.bytes(), queue.device(),
                                     std::span(slices).subspan(slice_count));
    bytes += operation.bytes();
    flight.path = path;
    flight.sent_bytes = operation.bytes();
    flight.sent = true;
    ++flight.works;
    work.operations[work.count++] = number;
    if (unsent_.empty() || work.count == SendQueue::kMostMerged) break;
    if (slice_count + operation.local.size() > queue.most_slices()) break;
    const Operation& next = flights_[unsent_.front()].operation;
    if (!is_read(operation) || !is_read(next) || operation.alone || next.alone ||
        next.remote.index != operation.remote.index ||
        next.remote_offset != operation.remote_offset + operation.bytes() ||
        bytes + next.bytes() > kPartBytes || !end_.keys->may_begin(next)) {
      break;
    }
  } while (true);
  queue.add(work, request, std::span(slices).first(slice_count));
}

size_t VerbsInitiator::poll(std::span<Completion> completions) {
  if (state_ != State::kClosed && ended_.empty()) harvest();
  size_t count = 0;
  for (; count < completions.size() && !ended_.empty(); ++count) {
    const uint16_t number = ended_.pop();
    const Flight& flight = flights_[number];
    completions[count] = {};
    completions[count].tag = flight.operation.tag;
    completions[count].outcome = flight.outcome;
    if (flight.outcome == Outcome::kFailed) completions[count].vendor = flight.status;
    free_.push(number);
  }
  return count;
}

void VerbsInitiator::harvest() {
  for (Path& path : paths_) {
    if (path.queue == nullptr) continue;
    path.queue->poll(
        [this](const SendQueue::Work& work, ibv_wc_status status) { work_ended(work, status); });
  }
  look_at_paths();
  if (state_ == State::kOpen) send();
}

// Takes what has been dialled, lets go of what is broken, and dials it anew where others carry on.
void VerbsInitiator::look_at_paths() {
  const size_t count = end_.endpoints.size();
  if (in_flight() > 0 && (count > 1 || ended_.empty())) leave_silent_paths();
  bool any = false;
  for (size_t number = 0; number < count; ++number) {
    Path& path = paths_[number];
    if (path.dialling && end_.arrivals->any()) take_arrived(number);
    if (path.queue != nullptr && path.queue->broken()) {
      const uint64_t now = boottime_clock().now_ns();
      // Gone with its device: nothing flushes it.
      if (!path.queue->idle() && now - path.queue->broken_ns() > kDrainNs) {
        path.queue->abandon([this](const SendQueue::Work& work, ibv_wc_status status) {
          work_ended(work, status);
        });
      }
      if (path.queue->drained()) broke(number, now);
    }
    any |= path.queue != nullptr;
  }
  if (!any && state_ == State::kOpen) {
    state_ = State::kBroken;
    end_unsent();
  }
  if (state_ == State::kOpen && !end_.one_path && count > 1) dial_again();
}

// Operations under way on a path for so long, while another path works, go over that one.
void VerbsInitiator::leave_silent_paths() {
  const uint64_t now = boottime_clock().now_ns();
  for (Path& path : paths_) {
    if (works(path)) path.queue->look(now);
  }
  if (working_paths() < 2) return;
  for (Path& path : paths_) {
    if (!works(path)) continue;
    const uint64_t since = path.queue->silent_since_ns();
    if (since == kNever || now - std::min(now, since) < kSilentNs) continue;
    path.queue->break_off();
    return;  // one at a time: the last one is never left
  }
}

void VerbsInitiator::take_arrived(size_t number) {
  Path& path = paths_[number];
  bool ended = false;
  path.queue = end_.arrivals->take(number, ended);
  path.dialling = !ended;
  path.proven = false;
  if (path.queue == nullptr) return;
  Connection& connection = path.queue->connection();
  const bool is_awaited = end_.readiness.add(connection.completions.fd(), POLLIN) &&
                          end_.readiness.add(connection.events->fd, POLLIN);
  // Its completions would wake no wait.
  if (!is_awaited) path.queue->break_off();
  // For a wait that has begun without it.
  connection.completions.arm();
}

// Ends its connection, on a thread that may block.
void VerbsInitiator::drop(std::unique_ptr<SendQueue>& queue) {
  end_.readiness.remove(queue->connection().completions.fd());
  end_.readiness.remove(queue->connection().events->fd);
  end_.dialer->dispose(std::move(queue));
}

void VerbsInitiator::broke(size_t number, uint64_t now_ns) {
  paths_[number].queue->counters().broken.add();
  drop(paths_[number].queue);
  // Operations that had begun there, if any, begin anew elsewhere.
  if (!unsent_.empty() && flights_[unsent_.front()].path == number) {
    flights_[unsent_.front()].sent_bytes = 0;
  }
  end_.dialer->health().broke(end_.endpoints[number], now_ns);
}

void VerbsInitiator::dial_again() {
  for (size_t number = 0; number < end_.endpoints.size(); ++number) {
    Path& path = paths_[number];
    if (path.queue != nullptr) {
      if (!path.proven && works(path) && path.queue->bytes_carried() >= kProvenBytes) {
        path.proven = true;
        end_.dialer->health().works(end_.endpoints[number]);
      }
      continue;
    }
    if (path.dialling) continue;
    const uint64_t now = boottime_clock().now_ns();
    if (now < end_.dialer->health().dial_ns(end_.endpoints[number])) continue;
    path.dialling = true;
    ConnectWire introduction = end_.introduction;
    introduction.path = static_cast<uint32_t>(number);
    end_.dialer->dial(end_.arrivals, end_.endpoints[number], introduction, now + kDialNs);
  }
}

void VerbsInitiator::work_ended(const SendQueue::Work& work, ibv_wc_status status) {
  for (size_t i = 0; i < work.count; ++i) {
    const uint16_t number = work.operations[i];
    Flight& flight = flights_[number];
    --flight.works;
    if (status != IBV_WC_SUCCESS && flight.status == IBV_WC_SUCCESS) flight.status = status;
    if (flight.works > 0) continue;
    // An operation that was sent in part is the first that waits.
    if (!flight.sent && flight.status == IBV_WC_SUCCESS) continue;
    if (!flight.sent) unsent_.pop();
    operation_ended(number);
  }
}

void VerbsInitiator::operation_ended(uint16_t number) {
  Flight& flight = flights_[number];
  if (flight.refused) return end(number, Outcome::kRefused);
  if (flight.status == IBV_WC_SUCCESS) return end(number, Outcome::kOk);
  if (is_refusal(flight.status)) return end(number, Outcome::kFailed);
  if (state_ == State::kOpen && is_read(flight.operation) && working_paths() > 0 &&
      flight.moves < end_.endpoints.size()) {
    flight.begin(static_cast<uint8_t>(flight.moves + 1));
    unsent_.push(number);
    return;
  }
  end(number, flight.status == IBV_WC_WR_FLUSH_ERR ? Outcome::kAborted : Outcome::kFailed);
}

void VerbsInitiator::end(uint16_t number, Outcome outcome) {
  flights_[number].outcome = outcome;
  ended_.push(number);
}

void VerbsInitiator::end_unsent() {
  while (!unsent_.empty()) end(unsent_.pop(), Outcome::kAborted);
}

void VerbsInitiator::wait(uint64_t deadline_ns) {
  if (!ended_.empty() || state_ != State::kOpen) return;
  look_for_events();
  if (const uint64_t spin = spin_ns(); spin > 0) {
    const uint64_t until = std::min(deadline_ns, boottime_clock().now_ns() + spin);
    do {
      harvest();
      if (!ended_.empty() || state_ != State::kOpen) return;
      look_for_events();
    } while (boottime_clock().now_ns() < until);
  }
  const uint64_t due_ns = arm();
  if (due_ns > 0) wait_for(descriptor(), POLLIN, std::min(deadline_ns, due_ns));
}

uint64_t VerbsInitiator::arm() {
  if (!ended_.empty() || state_ != State::kOpen) return 0;
  take_events();  // of the last time
  for (Path& path : paths_) {
    if (path.queue != nullptr) path.queue->connection().completions.arm();
  }
  harvest();  // what came before they were armed
  if (!ended_.empty() || state_ != State::kOpen) return 0;
  uint64_t due_ns = kNever;
  for (const Path& path : paths_) {
    if (path.queue == nullptr) continue;
    const uint64_t broken_ns = path.queue->broken_ns();
    if (broken_ns != kNever) due_ns = std::min(due_ns, broken_ns + kDrainNs + 1);
    const uint64_t since = path.queue->silent_since_ns();
    if (since != kNever && working_paths() > 1) due_ns = std::min(due_ns, since + kSilentNs);
  }
  return due_ns;
}

uint64_t VerbsInitiator::spin_ns() const {
  return in_flight() > 0 ? end_.spin_ns : 0;
}

// A peer that has gone is an event of its connection, and no completion.
void VerbsInitiator::look_for_events() {
  const uint64_t now = boottime_clock().now_ns();
  if (now < look_for_events_ns_) return;
  look_for_events_ns_ = now + kLookForEventsNs;
  take_events();
}

// Collects the events that made the descriptor readable. Only where there is something: librdmacm
// allocates before it looks.
void VerbsInitiator::take_events() {
  std::array<int, 2 * kMaxDevices> ready;
  const size_t count = end_.readiness.ready(ready);
  for (const int fd : std::span(ready).first(count)) {
    for (Path& path : paths_) {
      if (path.queue == nullptr) continue;
      Connection& connection = path.queue->connection();
      if (fd == connection.completions.fd()) connection.completions.acknowledge();
      if (fd == connection.events->fd && connection.lost() && works(path)) path.queue->break_off();
    }
  }
}

void VerbsInitiator::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  end_.arrivals->close();
  const auto done = [this](const SendQueue::Work& work, ibv_wc_status status) {
    work_ended(work, status);
  };
  const uint64_t now = boottime_clock().now_ns();
  const uint64_t until = now + kDrainNs;
  for (size_t number = 0; number < end_.endpoints.size(); ++number) {
    Path& path = paths_[number];
    if (path.queue == nullptr) continue;
    // The closing caller has waited in vain, perhaps for this path.
    const uint64_t since = path.queue->silent_since_ns();
    if (since != kNever && now - std::min(now, since) >= kSilentNs) {
      end_.dialer->health().broke(end_.endpoints[number], now);
      path.queue->counters().broken.add();
    }
    path.queue->break_off();
  }
  for (Path& path : paths_) {
    if (path.queue == nullptr) continue;
    while (!path.queue->idle() && boottime_clock().now_ns() < until) path.queue->poll(done);
    if (!path.queue->idle()) path.queue->abandon(done);
    drop(path.queue);
  }
  end_unsent();
}

}  // namespace farpage::verbs
