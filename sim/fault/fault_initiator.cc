#include "sim/fault/fault_initiator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "integrity/crc32c.h"
#include "sim/fault/page_read.h"

namespace farpage::fault {
namespace {

constexpr uint64_t kLineBytes = 64;
// While the peers stand still, how long a wait lasts before it looks whether they go on.
constexpr uint64_t kLookAgainNs = kMillisecond;
constexpr int32_t kInjected = -1;  // the vendor's code of a failure that was made here

}  // namespace

FaultInitiator::FaultInitiator(std::unique_ptr<Initiator> inner, std::shared_ptr<SharedPlan> shared,
                               uint64_t seed, std::vector<std::byte> source_memory, Region sources)
    : ForwardingInitiator(std::move(inner)),
      shared_(std::move(shared)),
      random_(seed),
      source_memory_(std::move(source_memory)),
      sources_(std::move(sources)) {}

std::optional<FaultKind> FaultInitiator::draw(const FaultPlan& plan) {
  double left = random_.unit();
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    left -= plan.chance[kind];
    if (left >= 0) continue;
    if (!shared_->take_one()) break;
    return static_cast<FaultKind>(kind);
  }
  return std::nullopt;
}

// It cannot be made of this operation.
void FaultInitiator::spare(std::optional<FaultKind>& fault) {
  if (fault) shared_->give_back();
  fault.reset();
}

Status FaultInitiator::post() {
  const FaultPlan plan = shared_->get();
  for (const Operation& operation : written_) begin(operation, plan);
  written_.clear();
  return inner().post();
}

void FaultInitiator::begin(const Operation& operation, const FaultPlan& plan) {
  Flight flight = {operation, draw(plan)};
  Operation changed = operation;
  changed.tag = ++last_tag_;
  const bool reads = operation.kind == OperationKind::kRead;
  if (closed_) spare(flight.fault);  // the inner initiator says so itself
  if (flight.fault == FaultKind::kFailed) {
    return make_up(operation, FaultKind::kFailed, Outcome::kFailed);
  }
  if (flight.fault == FaultKind::kNothing && reads) {
    return make_up(operation, FaultKind::kNothing, Outcome::kOk);
  }
  if (flight.fault == FaultKind::kNothing ||
      (flight.fault == FaultKind::kShort && !(reads && shorten(changed))) ||
      (flight.fault == FaultKind::kFlippedWrite && (reads || !flip_source(changed))) ||
      (flight.fault == FaultKind::kStaleSlot && !(reads_payload(changed) && misdirect(changed))) ||
      flight.fault == FaultKind::kFlippedAtRest) {
    spare(flight.fault);
  }
  inner().next() = changed;
  flights_.emplace(changed.tag, flight);
}

// An operation that is not carried out.
void FaultInitiator::make_up(const Operation& operation, FaultKind fault, Outcome outcome) {
  Completion completion;
  completion.outcome = outcome;
  completion.vendor = outcome == Outcome::kFailed ? kInjected : 0;
  completion.tag = operation.tag;
  shared_->injected.add(fault);
  if (shared_->watcher) shared_->watcher(operation, fault);
  hold(completion, {}, 0);
}

// To some of its lines.
bool FaultInitiator::shorten(Operation& operation) {
  const uint64_t bytes = operation.bytes();
  if (bytes <= kLineBytes) return false;
  uint64_t left = (1 + random_.below((bytes - 1) / kLineBytes)) * kLineBytes;
  uint8_t slices = 0;
  for (uint8_t i = 0; i < operation.local_count && left > 0; ++i) {
    operation.local[i].bytes = std::min(operation.local[i].bytes, left);
    left -= operation.local[i].bytes;
    slices = static_cast<uint8_t>(i + 1);
  }
  operation.local_count = slices;
  operation.wants_crc = false;
  return true;
}

// The write takes a copy in which one bit is another.
bool FaultInitiator::flip_source(Operation& operation) {
  const uint64_t bytes = operation.bytes();
  if (bytes == 0 || bytes > sources_.bytes() || source_in_use_ != kNever) return false;
  const auto local = std::span(operation.local).first(operation.local_count);
  const auto is_host = [](const Slice& slice) { return slice.place.is_host(); };
  if (!std::ranges::all_of(local, is_host)) return false;  // the inner one says what it thinks
  std::byte* to = sources_.data();
  for (const Slice& slice : local) {
    std::memcpy(to, slice.data, slice.bytes);
    to += slice.bytes;
  }
  flip(sources_.data(), bytes);
  operation.local_count = 1;
  operation.local[0] = sources_.slice(0, bytes);
  source_in_use_ = operation.tag;
  return true;
}

bool FaultInitiator::misdirect(Operation& operation) {
  const LandedPages::Page* other = pages_.draw_place(operation, random_);
  if (other == nullptr) return false;
  operation.remote_offset = other->offset;
  return true;
}

void FaultInitiator::flip(std::byte* data, uint64_t bytes) {
  const uint64_t bit = random_.below(bytes * 8);
  data[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
}

size_t FaultInitiator::poll(std::span<Completion> completions) {
  std::array<Completion, 64> polled;
  const size_t count = inner().poll(polled);
  for (const Completion& completion : std::span(polled).first(count)) landed(completion);
  const uint64_t now = shared_->clock.now_ns();
  if (shared_->peers_stopped.load() && !closed_) return 0;
  size_t given = 0;
  for (auto held = held_.begin(); held != held_.end() && given < completions.size();) {
    if (held->release_ns > now && !closed_) {
      ++held;
      continue;
    }
    Completion& to = completions[given++];
    to = held->completion;
    if (held->release_ns > now) to.outcome = Outcome::kAborted;
    held = held_.erase(held);
  }
  return given;
}

// Operations that the inner initiator has ended.
void FaultInitiator::landed(Completion completion) {
  const auto found = flights_.find(completion.tag);
  if (found == flights_.end()) return;
  if (source_in_use_ == completion.tag) source_in_use_ = kNever;
  Flight flight = found->second;
  flights_.erase(found);
  completion.tag = flight.asked.tag;
  const bool reads = flight.asked.kind == OperationKind::kRead;
  if (completion.outcome != Outcome::kOk) {
    spare(flight.fault);
    return hold(completion, {}, 0);
  }
  if (reads_payload(flight.asked) && flight.fault != FaultKind::kShort &&
      flight.fault != FaultKind::kStaleSlot) {
    pages_.remember(flight.asked);
  }
  if (flight.fault && !damage(flight.asked, *flight.fault)) spare(flight.fault);
  if (flight.fault) shared_->injected.add(*flight.fault);
  if (shared_->watcher) shared_->watcher(flight.asked, flight.fault);
  if (reads && flight.asked.wants_crc) {
    const Slice& last = payload_of(flight.asked);
    completion.crc = crc32c(0, last.data, last.bytes);
  }
  hold(completion, flight.fault, flight.asked.bytes());
}

// Whether the fault could be made of these bytes.
bool FaultInitiator::damage(const Operation& asked, FaultKind fault) {
  const Slice& first = asked.local[0];
  const bool is_page = reads_payload(asked);
  const Slice& last = is_page ? payload_of(asked) : first;
  const bool has_header =
      asked.kind == OperationKind::kRead && !(is_page && asked.local_count == 1);
  switch (fault) {
    case FaultKind::kFlippedHeader:
      if (has_header) flip(first.data, first.bytes);
      return has_header;
    case FaultKind::kFlippedPayload:
      if (is_page) flip(last.data, last.bytes);
      return is_page;
    case FaultKind::kTorn: {
      const LandedPages::Page* other = is_page ? pages_.draw_payload(asked, random_) : nullptr;
      if (other == nullptr) return false;
      // From a line on at or before the first byte that differs: all of it does some harm.
      const std::byte* payload = other->payload.data();
      const auto differs = std::mismatch(last.data, last.data + last.bytes, payload).first;
      const auto at = static_cast<uint64_t>(differs - last.data);
      const uint64_t cut = random_.below(at / kLineBytes + 1) * kLineBytes;
      std::memcpy(last.data + cut, payload + cut, last.bytes - cut);
      return true;
    }
    default:
      return true;
  }
}

void FaultInitiator::hold(const Completion& completion, std::optional<FaultKind> fault,
                          uint64_t bytes) {
  const FaultPlan plan = shared_->get();
  const uint64_t now = shared_->clock.now_ns();
  uint64_t release = now + plan.delay_ns;
  if (plan.bytes_per_s > 0) {
    const auto wire_ns = static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 /
                                               static_cast<double>(plan.bytes_per_s));
    last_release_ns_ = std::max(last_release_ns_, now) + wire_ns;
    release = std::max(release, last_release_ns_);
  }
  if (fault == FaultKind::kLate) release += random_.below(plan.late_max_ns);
  if (fault == FaultKind::kReordered) release += random_.below(plan.reorder_max_ns);
  if (fault == FaultKind::kLost) release = kNever;
  held_.push_back({completion, release});
  if (fault == FaultKind::kDuplicated) {
    held_.push_back({completion, release + random_.below(plan.reorder_max_ns)});
  }
}

uint64_t FaultInitiator::next_release_ns() const {
  if (shared_->peers_stopped.load()) return shared_->clock.now_ns() + kLookAgainNs;
  uint64_t next = kNever;
  for (const Held& held : held_) next = std::min(next, held.release_ns);
  return next;
}

// When poll() may have something, whatever the inner initiator does; 0: now.
uint64_t FaultInitiator::due_ns() const {
  const uint64_t next = next_release_ns();
  if (!held_.empty() && (closed_ || next <= shared_->clock.now_ns())) return 0;
  return held_.empty() && flights_.empty() ? kNever : next;
}

void FaultInitiator::wait(uint64_t deadline_ns) {
  if (const uint64_t due = due_ns(); due > 0) inner().wait(std::min(deadline_ns, due));
}

uint64_t FaultInitiator::arm() {
  const uint64_t due = due_ns();
  return due == 0 ? 0 : std::min(due, inner().arm());
}

void FaultInitiator::close() {
  closed_ = true;
  inner().close();
}

}  // namespace farpage::fault
