#include "chaos/ledger.h"

#include <algorithm>

#include "chaos/replica_sets.h"
#include "sim/fault/page_read.h"

namespace farpage::chaos {
namespace {

using fault::FaultKind;

// Faults of a completion; the bytes are right.
bool is_of_completion(Kind kind) {
  return kind == kind_of(FaultKind::kLate) || kind == kind_of(FaultKind::kLost) ||
         kind == kind_of(FaultKind::kReordered) || kind == kind_of(FaultKind::kFailed);
}

// Of reads and messages that follow one another, for one page, where nothing is wrong.
constexpr uint64_t kStepsAfterAnother = 4;
constexpr uint64_t kWorkNs = 500 * kMicrosecond;

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
  if (!fault::reads_payload(operation)) return;
  const std::byte* destination = fault::payload_of(operation).data;
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
        is_wrong(fault::payload_of(operation))) {
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

void Ledger::disturbed(Disturbance kind, const Befallen& whom, uint64_t for_ns) {
  ++injected_[kind_of(kind)];
  const uint64_t now = clock_.now_ns();
  windows_.push_back({kind, whom, now, now + for_ns + lease_ns_, false});
}

void Ledger::strays(uint64_t count) {
  uint64_t& caught = caught_[kind_of(FaultKind::kDuplicated)];
  caught = std::min(caught + count, injected_[kind_of(FaultKind::kDuplicated)]);
}

void Ledger::put_ended(const Asked& asked, uint64_t number, const PutResult& result) {
  if (result.code == Code::kOk) return;
  if (flipped_puts_.erase(number) > 0) ++caught_[kind_of(FaultKind::kFlippedWrite)];
  if (is_of_silence(result.code)) gave_up(asked, true, true);
}

void Ledger::remove_ended(const Asked& asked, Code code) {
  if (is_of_silence(code)) gave_up(asked, true, true);
}

void Ledger::page_judged(const std::byte* destination, const Asked& asked,
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
  if (verdict.reason == Reason::kUnreachable) gave_up(asked, false, true);
  if (verdict.reason == Reason::kStalled) gave_up(asked, false, false);
}

void Ledger::gave_up(const Asked& asked, bool writes, bool unreachable) {
  const uint64_t steps = writes ? cluster_.longest_message_ns() : 0;
  const uint64_t enough_ns = kStepsAfterAnother * (cluster_.longest_read_ns() + steps) + kWorkNs;
  if (asked.deadline_ns - asked.sent_ns < enough_ns) return;
  const auto engine = std::ranges::find(engines_, asked.engine);
  const auto client = static_cast<size_t>(engine - engines_.begin());
  const GivenUp given_up = {cluster_.client_host(client), asked_nodes(asked), writes, unreachable,
                            asked.sent_ns};
  for (Window& window : windows_) {
    if (window.met || window.to_ns < asked.sent_ns || !can_be_why(window, given_up)) continue;
    window.met = true;
    ++caught_[kind_of(window.kind)];
  }
}

// A client's view of the epoch may be as old as a lease.
std::vector<bool> Ledger::asked_nodes(const Asked& asked) const {
  std::vector<bool> nodes(list_.members.size());
  const auto add = [&](const Epoch& epoch) {
    for (size_t node = 0; node < nodes.size(); ++node) {
      if (holds(epoch, list_.members[node].node, asked.key)) nodes[node] = true;
    }
  };
  const SimRegister* epochs = cluster_.epochs();
  if (epochs == nullptr) {
    add(list_);
    return nodes;
  }
  const uint64_t since_ns = asked.sent_ns - std::min(asked.sent_ns, lease_ns_);
  for (size_t epoch = epochs->history().size(); epoch-- > 0;) {
    add(epochs->history()[epoch]);
    if (epochs->begun_ns(epoch) <= since_ns) break;
  }
  return nodes;
}

bool Ledger::view_has_ended(size_t host) const {
  const SimRegister* epochs = cluster_.epochs();
  if (epochs == nullptr) return false;
  // A node has its own reads; a client has those of whoever told it of its epoch.
  const bool is_node = host < cluster_.nodes();
  const uint64_t read_ns = is_node
                               ? epochs->last_read_ns(host)
                               : epochs->last_read_of_epoch_ns(
                                     engines_[host - cluster_.client_host(0)]->client().epoch());
  return clock_.now_ns() >= read_ns + lease_ns_;
}

bool Ledger::can_be_why(const Window& window, const GivenUp& given_up) const {
  const auto asked = [&](size_t host) {
    return host < given_up.asked_nodes.size() && given_up.asked_nodes[host];
  };
  const auto asks = [&](size_t host) {
    return host == given_up.client || (given_up.writes && asked(host));
  };
  const auto [host, other] = window.whom;
  const bool joins = (asks(host) && asked(other)) || (asks(other) && asked(host));
  const auto has_no_view = [&](size_t of) {
    return given_up.unreachable && asks(of) && view_has_ended(of);
  };
  switch (window.kind) {
    case Disturbance::kStopped:
    case Disturbance::kKilled:
    case Disturbance::kPowerLost:
    case Disturbance::kNodePaused:
      return asked(host);
    case Disturbance::kClientPaused:
      return host == given_up.client;
    case Disturbance::kPeersStopped:
      return asks(host);
    case Disturbance::kLinksCut:
    case Disturbance::kLinksSilent:
      return given_up.unreachable && joins;
    case Disturbance::kParted:
      if (host == cluster_.register_host()) return has_no_view(other);
      if (other == cluster_.register_host()) return has_no_view(host);
      return joins;
    case Disturbance::kDialsRefused:
      if (host != given_up.client || !given_up.unreachable) return false;
      for (size_t node = 0; node < cluster_.nodes(); ++node) {
        const uint64_t refused_ns = cluster_.refused_dial_ns(host - cluster_.nodes(), node);
        if (asked(node) && refused_ns >= std::max(window.from_ns, uint64_t{1})) return true;
      }
      return false;
    case Disturbance::kRegisterSilent:
      for (size_t each = 0; each < cluster_.register_host(); ++each) {
        if (has_no_view(each)) return true;
      }
      return false;
    case Disturbance::kEpochUnread:
      return has_no_view(host);
  }
  return false;
}

}  // namespace farpage::chaos
