#include "bench/chaos/ledger.h"

#include <algorithm>

namespace farpage::chaos {
namespace {

using fault::FaultKind;

// What is done to a completion; the bytes are right.
bool is_of_completion(Kind kind) {
  return kind == kind_of(FaultKind::kLate) || kind == kind_of(FaultKind::kLost) ||
         kind == kind_of(FaultKind::kReordered) || kind == kind_of(FaultKind::kFailed);
}

}  // namespace

void Ledger::passed(const Operation& operation, std::optional<FaultKind> fault) {
  if (fault) ++injected_[kind_of(*fault)];
  if (operation.kind == OperationKind::kWrite) {
    const Slice& source = operation.local[0];
    if (fault == FaultKind::kFlippedWrite && source.bytes >= kMinContentBytes) {
      const uint64_t number = page_put_number({source.data, source.bytes});
      if (truth_.key_of(number)) flipped_puts_.insert(number);
    }
    return;
  }
  if (operation.local_count != 2) return;
  const std::byte* destination = operation.local[1].data;
  if (!awaited(destination)) return;
  Destination& met = destinations_[destination];
  ++met.landings;
  if (fault && *fault != FaultKind::kDuplicated) {
    met.met.push_back({kind_of(*fault), met.landings, 0});
  } else if (const uint64_t flip = flip_read(operation); flip != 0) {
    met.met.push_back({kind_of(FaultKind::kFlippedAtRest), met.landings, flip});
  }
}

bool Ledger::awaited(const std::byte* destination) const {
  return std::ranges::any_of(engines_,
                             [&](const SimEngine* engine) { return engine->awaits(destination); });
}

// It covers a bit that flipped at some node and is still as it was then, and its payload is wrong.
uint64_t Ledger::flip_read(const Operation& operation) const {
  for (const Flip& flip : flips_) {
    const uint64_t offset = flip.byte.offset;
    if (!flip.byte.memory.expired() && operation.remote_offset <= offset &&
        offset - operation.remote_offset < operation.bytes() && *flip.byte.at == flip.value &&
        is_wrong(operation.local[1])) {
      return flip.id;
    }
  }
  return 0;
}

bool Ledger::is_wrong(const Slice& payload) const {
  const std::span<const std::byte> bytes(payload.data, payload.bytes);
  if (bytes.size() < kMinContentBytes) return false;
  const uint64_t number = page_put_number(bytes);
  const std::optional<PageKey> key = truth_.key_of(number);
  return !key || count_wrong_bytes(bytes, *key, {number, number}) > 0;
}

void Ledger::flipped_at_rest(size_t node, const fault::FlippedByte& flipped) {
  ++injected_[kind_of(FaultKind::kFlippedAtRest)];
  flips_.push_back({++last_flip_, node, flipped, *flipped.at});
}

void Ledger::node_ended(size_t node) {
  std::erase_if(flips_, [node](const Flip& flip) { return flip.node == node; });
}

void Ledger::disturbed(Disturbance kind, uint64_t for_ns) {
  ++injected_[kind_of(kind)];
  const uint64_t now = clock_.now_ns();
  windows_.push_back({kind_of(kind), now, now + for_ns, false});
}

void Ledger::strays(uint64_t count) {
  uint64_t& caught = caught_[kind_of(FaultKind::kDuplicated)];
  caught = std::min(caught + count, injected_[kind_of(FaultKind::kDuplicated)]);
}

void Ledger::put_ended(const PageKey&, uint64_t number, uint64_t sent_ns, const PutResult& result) {
  if (result.code == Code::kOk) return;
  if (flipped_puts_.erase(number) > 0) ++caught_[kind_of(FaultKind::kFlippedWrite)];
  gave_up(sent_ns);
}

void Ledger::remove_ended(const PageKey&, uint64_t sent_ns, bool acknowledged) {
  if (!acknowledged) gave_up(sent_ns);
}

void Ledger::page_judged(const std::byte* destination, uint64_t sent_ns,
                         const PageVerdict& verdict) {
  const bool ready = verdict.verdict == Verdict::kReady;
  if (const auto found = destinations_.find(destination); found != destinations_.end()) {
    for (const Met& met : found->second.met) {
      // A page that is ready with a landing that was spoiled is right by luck, or a wrong byte.
      const bool used = ready && met.landing == found->second.landings;
      if (used && !is_of_completion(met.kind)) continue;
      if (met.flip != 0 &&
          std::erase_if(flips_, [&](const Flip& flip) { return flip.id == met.flip; }) == 0) {
        continue;
      }
      ++caught_[met.kind];
    }
    destinations_.erase(found);
  }
  if (!ready && verdict.reason != Reason::kMiss) gave_up(sent_ns);
}

void Ledger::gave_up(uint64_t sent_ns) {
  for (Window& window : windows_) {
    if (window.met || window.to_ns < sent_ns) continue;
    window.met = true;
    ++caught_[window.kind];
  }
}

}  // namespace farpage::chaos
