#include "etcd/fleet_reader.h"

#include <utility>

namespace farpage::etcd {

FleetReader::Known FleetReader::known() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

FleetReader::Record FleetReader::keep(std::string terms, FleetRecord fleet, uint64_t disbelieved) {
  auto record = std::make_shared<const FleetRecord>(std::move(fleet));
  const std::lock_guard lock(mutex_);
  if (known_.fleet == nullptr || disbelieved > known_.disbelieved ||
      record->revision >= known_.fleet->revision) {
    known_ = {std::move(terms), record, disbelieved};
  }
  return record;
}

// The terms are compared by what they say: an etcd that was made anew has others, and its revision
// says nothing of what this one has read.
Result<FleetReader::Record> FleetReader::read(uint64_t deadline_ns) {
  const Known known = this->known();
  if (known.fleet == nullptr) return read_all(deadline_ns);
  auto reply = client_.run(read_terms(client_.prefix()), deadline_ns);
  if (!reply) return tl::unexpected(reply.error());
  if (reply->found.size() != 1) return fail(Code::kProtocol, "etcd answers another request");
  const auto& terms = reply->found.front();
  const bool is_same = terms.size() == 1 && terms.front().value == known.terms;
  if (!is_same || client_.disbelieved() != known.disbelieved) return read_all(deadline_ns);
  if (reply->header.revision == known.fleet->revision) return known.fleet;
  return read_since(known, deadline_ns);
}

Result<FleetReader::Record> FleetReader::read_since(const Known& known, uint64_t deadline_ns) {
  auto reply = client_.run(read_changes(client_.prefix(), *known.fleet), deadline_ns);
  if (!reply) return tl::unexpected(reply.error());
  if (client_.disbelieved() != known.disbelieved) return read_all(deadline_ns);
  auto fleet = apply_changes(client_.prefix(), *known.fleet, *reply);
  if (fleet) return keep(known.terms, std::move(*fleet), known.disbelieved);
  if (fleet.error().code == Code::kAborted) return read_all(deadline_ns);
  return tl::unexpected(fleet.error());
}

Result<FleetReader::Record> FleetReader::read_all(uint64_t deadline_ns) {
  const uint64_t disbelieved = client_.disbelieved();
  auto reply = client_.run(read_fleet(client_.prefix()), deadline_ns);
  if (!reply) return tl::unexpected(reply.error());
  auto fleet = decode_fleet(client_.prefix(), *reply);
  if (!fleet) return tl::unexpected(fleet.error());
  const auto& terms = reply->found.front();
  // A fleet that nobody has begun has no terms to know it by.
  if (terms.empty()) return std::make_shared<const FleetRecord>(std::move(*fleet));
  return keep(terms.front().value, std::move(*fleet), disbelieved);
}

}  // namespace farpage::etcd
