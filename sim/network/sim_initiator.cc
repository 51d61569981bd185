#include "sim/network/sim_initiator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "sim/network/sim_region.h"
#include "sim/network/sim_target.h"
#include "sim/network/world.h"
#include "transport/peer_memory.h"

namespace farpage::sim {
namespace {

constexpr uint64_t kLineBytes = 64;

// The numbers of ibv_wc_status, so that people recognise them.
constexpr int32_t kLocalProtection = 4;
constexpr int32_t kRemoteAccess = 10;
constexpr int32_t kRemoteOperation = 11;
constexpr int32_t kPeerGone = 12;

}  // namespace

SimInitiator::SimInitiator(std::shared_ptr<Network> network, const Host& host,
                           ChannelPurpose purpose, const SimTarget& target)
    : network_(std::move(network)),
      host_(host),
      purpose_(purpose),
      id_(network_->initiators.add(*this)),
      target_(target.id()),
      target_host_(target.host()) {}

SimInitiator::~SimInitiator() {
  network_->initiators.remove(id_);
}

Result<RemoteRegion> SimInitiator::import_region(RegionExport region, const RegionUse& use) {
  if (const char* why = why_unusable(region, use)) {
    return fail(Code::kProtocol, std::string("a simulated region is refused: ") + why);
  }
  if ((use.access == Access::kRemoteRead) != (purpose_ == ChannelPurpose::kRead)) {
    return fail(Code::kProtocol, "a region of another use than the channel's");
  }
  Result<uint64_t> key = key_of(region);
  if (!key) return tl::make_unexpected(key.error());
  if (!network_->was_issued(*key)) return fail(Code::kProtocol, "the peer named an unknown region");
  // Whether the region is there and whose it is the responder finds out, as with a real rkey.
  const Registration* found = network_->find(*key);
  if (found != nullptr && (found->bytes != region.bytes || found->access != region.access)) {
    return fail(Code::kProtocol, "the peer described its region wrongly");
  }
  imports_.push_back({*key, use});
  return RemoteRegion{static_cast<uint32_t>(imports_.size() - 1)};
}

size_t SimInitiator::room() const {
  return kMaxInFlight - (order_.size() + ended_.size() + written_.size());
}

Operation& SimInitiator::next() {
  FARPAGE_CHECK(room() > 0);
  if (free_flights_.empty()) {
    free_flights_.push_back(static_cast<uint32_t>(flights_.size()));
    flights_.emplace_back();
  }
  written_.push_back(free_flights_.back());
  free_flights_.pop_back();
  return flights_[written_.back()].operation;
}

Status SimInitiator::post() {
  const bool is_open = !closed_ && !broken_;
  for (const uint32_t slot : written_) {
    Flight& flight = flights_[slot];
    const Operation& operation = flight.operation;
    if (is_open) check_use(operation, imports_[operation.remote.index].use);
    if (is_open && !refusals_.refuses(operation, may_begin(operation))) {
      start(slot);
      continue;
    }
    end(flight, is_open ? Outcome::kRefused : Outcome::kAborted);
    free_flights_.push_back(slot);
  }
  written_.clear();
  if (is_open) return {};
  return {Code::kUnavailable, 0, closed_ ? "the channel is closed" : "the channel is broken"};
}

bool SimInitiator::may_begin(const Operation& operation) const {
  for (uint32_t i = 0; i < operation.local_count; ++i) {
    const Slice& slice = operation.local[i];
    if (!slice.place.is_host() || !owns(slice)) return false;
  }
  return true;
}

bool SimInitiator::owns(const Slice& slice) const {
  const Registration* found = network_->find(slice.local_key);
  if (found == nullptr || found->host != &host_ || slice.data < found->data) return false;
  const uint64_t offset = static_cast<uint64_t>(slice.data - found->data);
  return offset <= found->bytes && slice.bytes <= found->bytes - offset;
}

uint64_t SimInitiator::delay() {
  return network_->world().random_between(host_.options.delay_min_ns, host_.options.delay_max_ns);
}

void SimInitiator::schedule(uint64_t time_ns, Step step, uint32_t slot, uint32_t piece) {
  // 16 bytes: std::function keeps it without allocating. The initiator may be gone when it runs.
  struct Run {
    Network* network;
    uint32_t initiator;
    uint16_t slot;
    uint8_t piece;
    Step step;
    void operator()() const {
      if (SimInitiator* found = network->initiators.find(initiator)) found->run(step, slot, piece);
    }
  };
  World& world = network_->world();
  world.after(time_ns - world.now_ns(), Run{network_.get(), id_, static_cast<uint16_t>(slot),
                                            static_cast<uint8_t>(piece), step});
}

void SimInitiator::start(uint32_t slot) {
  World& world = network_->world();
  const SimOptions& options = host_.options;
  order_.push_back(slot);
  Flight& flight = flights_[slot];
  static_cast<Course&>(flight) = {};
  const Operation& operation = flight.operation;
  flight.bytes.resize(operation.bytes());
  flight.remote_key = imports_[operation.remote.index].key;
  flight.sequence = next_sequence_++;
  flight.active = true;
  flight.overtakes = world.chance(options.reorder);
  flight.refused = world.chance(options.fail);
  flight.silent = world.chance(options.loss);
  cut(flight);

  const bool is_write = operation.kind == OperationKind::kWrite;
  const uint64_t fate = flight.silent ? world.random_below(3) : 0;
  flight.stuck = fate == 1 || (is_write && writes_landed_ns_ == kNever);
  if (flight.stuck) {
    if (is_write) writes_landed_ns_ = kNever;
    return;
  }
  const uint64_t lateness = fate == 2 ? world.random_below(options.late_max_ns) : 0;

  uint64_t taken_ns = world.now_ns();
  for (uint32_t piece = 0; piece < flight.pieces; ++piece) {
    const uint64_t time_ns = world.now_ns() + delay();
    schedule(time_ns, Step::kTake, slot, piece);
    taken_ns = std::max(taken_ns, time_ns);
  }
  const uint64_t first_ns = std::max(taken_ns + lateness, is_write ? writes_landed_ns_ : 0);
  uint64_t landed_ns = first_ns;
  for (uint32_t piece = 0; piece < flight.pieces; ++piece) {
    const uint64_t time_ns = first_ns + delay();
    schedule(time_ns, Step::kLand, slot, piece);
    landed_ns = std::max(landed_ns, time_ns);
  }
  if (is_write) writes_landed_ns_ = landed_ns;
  if (operation.has_immediate) {
    immediates_seen_ns_ = std::max(immediates_seen_ns_, landed_ns + delay());
    schedule(immediates_seen_ns_, Step::kImmediate, slot, 0);
  }
  // After the immediate too, so that no step of an operation comes after its completion.
  const uint64_t done_ns = operation.has_immediate ? immediates_seen_ns_ : landed_ns;
  if (!flight.silent) schedule(done_ns + delay(), Step::kComplete, slot, 0);
}

void SimInitiator::cut(Flight& flight) {
  World& world = network_->world();
  const uint64_t bytes = flight.bytes.size();
  const uint64_t first_line = flight.operation.remote_offset / kLineBytes;
  const uint64_t last_line =
      (flight.operation.remote_offset + std::max<uint64_t>(bytes, 1) - 1) / kLineBytes;
  flight.pieces = 1;
  if (last_line > first_line && world.chance(host_.options.tear)) {
    flight.pieces = static_cast<uint32_t>(world.random_between(2, kMaxPieces));
  }
  flight.cuts[0] = 0;
  for (uint32_t i = 1; i < flight.pieces; ++i) {
    const uint64_t line = world.random_between(first_line + 1, last_line);
    flight.cuts[i] = line * kLineBytes - flight.operation.remote_offset;
  }
  flight.cuts[flight.pieces] = bytes;
  std::sort(flight.cuts.begin(), flight.cuts.begin() + flight.pieces);
}

void SimInitiator::run(Step step, uint32_t slot, uint32_t piece) {
  if (step == Step::kFlush) return abort_all();
  Flight& flight = flights_[slot];
  if (!flight.active || flight.stuck || flight.sequence > refused_sequence_) return;
  switch (step) {
    case Step::kTake:
      return take(flight, piece);
    case Step::kLand:
      return land(flight, piece);
    case Step::kImmediate:
      return send_immediate(flight);
    case Step::kComplete:
      if (!network_->reaches(host_, target_host_)) {
        flight.stuck = true;
        return;
      }
      flight.complete = true;
      return deliver();
    case Step::kFlush:
      break;
  }
}

void SimInitiator::take(Flight& flight, uint32_t piece) {
  const uint64_t begin = flight.cuts[piece];
  const uint64_t bytes = flight.cuts[piece + 1] - begin;
  if (flight.refused) return refuse(flight, kRemoteOperation);
  if (flight.operation.kind == OperationKind::kRead) {
    const std::byte* remote = remote_bytes(flight);
    if (remote != nullptr && bytes > 0)
      std::memcpy(flight.bytes.data() + begin, remote + begin, bytes);
    return;
  }
  if (local_ready(flight))
    move_local(flight.operation, flight.bytes.data(), begin, bytes, Move::kGather);
}

void SimInitiator::land(Flight& flight, uint32_t piece) {
  if (flight.vendor != 0) return;
  const uint64_t begin = flight.cuts[piece];
  const uint64_t bytes = flight.cuts[piece + 1] - begin;
  if (flight.operation.kind == OperationKind::kWrite) {
    std::byte* remote = remote_bytes(flight);
    if (remote != nullptr && bytes > 0)
      std::memcpy(remote + begin, flight.bytes.data() + begin, bytes);
    return;
  }
  if (local_ready(flight))
    move_local(flight.operation, flight.bytes.data(), begin, bytes, Move::kScatter);
}

void SimInitiator::send_immediate(const Flight& flight) {
  if (flight.vendor != 0 || !network_->reaches(host_, target_host_)) return;
  if (SimTarget* target = network_->targets.find(target_)) {
    target->arrive(flight.operation.immediate);
  }
}

// The peer's memory, if the peer answers and lets this operation in.
std::byte* SimInitiator::remote_bytes(Flight& flight) {
  if (!network_->reaches(host_, target_host_)) {
    flight.stuck = true;
    return nullptr;
  }
  const SimTarget* target = network_->targets.find(target_);
  if (target == nullptr || !target->serves()) {
    refuse(flight, kPeerGone);
    return nullptr;
  }
  const Operation& operation = flight.operation;
  const bool is_read = operation.kind == OperationKind::kRead;
  const Registration* found = network_->find(flight.remote_key);
  const uint64_t bytes = flight.bytes.size();
  if (found == nullptr || found->host != &target_host_ ||
      found->access != (is_read ? Access::kRemoteRead : Access::kRemoteWrite) ||
      (!is_read && found->target != target_) || operation.remote_offset > found->bytes ||
      bytes > found->bytes - operation.remote_offset) {
    refuse(flight, kRemoteAccess);
    return nullptr;
  }
  return found->data + operation.remote_offset;
}

bool SimInitiator::local_ready(Flight& flight) {
  if (!host_.alive) {
    flight.stuck = true;
    return false;
  }
  for (uint32_t i = 0; i < flight.operation.local_count; ++i) {
    if (!owns(flight.operation.local[i])) {
      refuse(flight, kLocalProtection);
      return false;
    }
  }
  return true;
}

void SimInitiator::refuse(Flight& flight, int32_t vendor) {
  flight.vendor = vendor;
  refused_sequence_ = std::min(refused_sequence_, flight.sequence);
}

void SimInitiator::deliver() {
  bool blocked = false;
  for (size_t i = 0; i < order_.size();) {
    Flight& flight = flights_[order_[i]];
    if (!flight.complete || (blocked && !flight.overtakes)) {
      blocked |= !flight.silent && !flight.stuck && !flight.overtakes;
      ++i;
      continue;
    }
    const bool failed = flight.vendor != 0;
    free_flights_.push_back(order_[i]);
    order_.erase(order_.begin() + static_cast<ptrdiff_t>(i));
    end(flight, failed ? Outcome::kFailed : Outcome::kOk);
    if (failed) {
      broken_ = true;
      return abort_all();
    }
  }
}

void SimInitiator::end(Flight& flight, Outcome outcome) {
  flight.active = false;
  Completion completion;
  completion.outcome = outcome;
  completion.vendor = outcome == Outcome::kFailed ? flight.vendor : 0;
  completion.tag = flight.operation.tag;
  ended_.push_back(completion);
}

void SimInitiator::abort_all() {
  for (const uint32_t slot : order_) {
    end(flights_[slot], Outcome::kAborted);
    free_flights_.push_back(slot);
  }
  order_.clear();
}

size_t SimInitiator::poll(std::span<Completion> completions) {
  if (host_.paused) return 0;
  const size_t count = std::min(completions.size(), ended_.size());
  const auto last = ended_.begin() + static_cast<ptrdiff_t>(count);
  std::copy(ended_.begin(), last, completions.begin());
  ended_.erase(ended_.begin(), last);
  return count;
}

void SimInitiator::wait(uint64_t deadline_ns) {
  // Another event of the world may end this initiator meanwhile, as no other thread could.
  const auto ready = [network = network_.get(), id = id_, &host = host_] {
    const SimInitiator* initiator = network->initiators.find(id);
    return initiator == nullptr || (!initiator->ended_.empty() && !host.paused);
  };
  (void)sim::wait_until(network_->world(), host_, deadline_ns, ready);
}

void SimInitiator::close() {
  if (std::exchange(closed_, true)) return;
  schedule(network_->world().now_ns() + delay(), Step::kFlush, 0, 0);
}

}  // namespace farpage::sim
