#include "etcd/registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

namespace farpage::etcd {
namespace {

constexpr uint64_t kLooksPerLease = 6;
constexpr uint64_t kAwayPerLease = 4;
constexpr uint64_t kLeasesToWait = 2;  // for a process that has died
constexpr uint64_t kFirstCallNs = 5 * kSecond;
constexpr uint64_t kTriesToBegin = 20;
constexpr int kTries = 5;  // of what others may do at the same time

std::string difference(const Terms& ours, const Terms& theirs) {
  const auto say = [](const char* key, uint64_t own, uint64_t other) {
    return own == other ? std::string()
                        : fmt::format(" {} is {} here and {} there;", key, own, other);
  };
  return say("node.lease_ms", ours.lease_ms, theirs.lease_ms) +
         say("node.page_bytes", ours.page_bytes, theirs.page_bytes) +
         say("cluster.replicas", ours.replicas, theirs.replicas) +
         say("cluster.seed", ours.seed, theirs.seed);
}

}  // namespace

Registration::Registration(FleetReader& reader, const Options& options)
    : reader_(reader), client_(reader.client()), options_(options) {}

// At the start nothing presses, and etcd may be starting too.
uint64_t Registration::deadline() const {
  return boottime_clock().now_ns() + (lease_ == 0 ? kFirstCallNs : options_.call_ns);
}

bool Registration::wait(uint64_t ns) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return stopped_; });
}

Result<std::unique_ptr<Registration>> Registration::begin(FleetReader& reader,
                                                          const Options& options) {
  auto made = std::unique_ptr<Registration>(new Registration(reader, options));
  const uint64_t patience_until = boottime_clock().now_ns() + kFirstCallNs;
  auto agreed = made->agree();
  while (!agreed && agreed.error().code == Code::kUnavailable &&
         boottime_clock().now_ns() < patience_until) {
    made->wait(kFirstCallNs / kTriesToBegin);
    agreed = made->agree();
  }
  if (!agreed) return tl::unexpected(agreed.error());
  const uint64_t until = boottime_clock().now_ns() + kLeasesToWait * options.ttl_s * kSecond;
  auto enrolled = made->enroll(true);
  if (!enrolled && enrolled.error().code == Code::kExists) {
    log_warning(fmt::format("{}; waiting up to {} s for its lease to end", enrolled.error().message,
                            kLeasesToWait * options.ttl_s));
  }
  while (!enrolled && enrolled.error().code == Code::kExists && boottime_clock().now_ns() < until) {
    made->wait(options.ttl_s * kSecond / kLooksPerLease);
    enrolled = made->enroll(true);
  }
  if (!enrolled) return tl::unexpected(enrolled.error());
  made->thread_ = std::thread([registration = made.get()] { registration->keep(); });
  return made;
}

Registration::~Registration() {
  end_thread();
}

void Registration::end_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Condition Registration::registered() const {
  return {node_key(client_.prefix(), options_.self.name), record_revision_};
}

bool Registration::is_own(const NodeRecord* record) const {
  return record != nullptr && record->lease == lease_ && record->revision == record_revision_;
}

Result<FleetReader::Record> Registration::read() {
  auto fleet = reader_.read(deadline());
  if (!fleet || fleet_id_ == 0) return fleet;
  if (auto same = (*fleet)->check_id(fleet_id_); !same) return tl::unexpected(same.error());
  return fleet;
}

Result<void> Registration::agree() {
  Terms first = options_.terms;
  std::random_device random;
  first.id = (uint64_t{random()} << 32 | random()) | 1;
  while (true) {
    const auto fleet = read();
    if (!fleet) return tl::unexpected(fleet.error());
    const auto& terms = (*fleet)->terms;
    if (terms && terms->agrees_with(options_.terms)) {
      fleet_id_ = terms->id;
      return {};
    }
    if (terms) {
      return fail(Code::kInvalid,
                  fmt::format("the fleet below '{}' in etcd was begun with other settings:{} give "
                              "this node the same, or another etcd.fleet",
                              client_.prefix(), difference(options_.terms, *terms)));
    }
    Transaction begin;
    begin.conditions = {{terms_key(client_.prefix()), 0}};
    begin.operations = {{Operation::Kind::kPut, terms_key(client_.prefix()), encode(first)}};
    auto written = client_.run(begin, deadline());
    if (!written) return tl::unexpected(written.error());
  }
}

Result<void> Registration::enroll(bool first) {
  const std::string key = node_key(client_.prefix(), options_.self.name);
  for (int i = 0; i < kTries; ++i) {
    const auto fleet = read();
    if (!fleet) return tl::unexpected(fleet.error());
    const NodeRecord* known = (*fleet)->find(options_.self.id);
    if (known != nullptr && known->owner != options_.self.owner) {
      return fail(Code::kExists,
                  fmt::format("a node '{}' is in the fleet already, at {}: each has a cluster.name "
                              "of its own",
                              options_.self.name, known->address));
    }
    auto granted = client_.grant(options_.ttl_s, deadline());
    if (!granted) return tl::unexpected(granted.error());
    Transaction transaction;
    transaction.conditions = {{key, known == nullptr ? 0 : known->revision}};
    transaction.operations = {
        {Operation::Kind::kPut, key, encode(options_.self), granted->lease},
        {Operation::Kind::kErase, away_key(client_.prefix(), options_.self.id)}};
    // That an earlier process of this name was drained is nothing to this one.
    if (first) {
      const Member* former = (*fleet)->registered.epoch.find(options_.self.id);
      former_ = former == nullptr ? std::nullopt : std::optional(former->incarnation);
      transaction.operations.push_back(
          {Operation::Kind::kErase, drained_key(client_.prefix(), options_.self.name)});
    }
    auto written = client_.run(transaction, deadline());
    if (!written) return tl::unexpected(written.error());
    if (!written->held) continue;
    lease_ = granted->lease;
    away_written_ = AwayRecord();
    record_revision_ = written->header.revision;
    return {};
  }
  return fail(Code::kUnavailable, "others write this node's record all the time");
}

// A round that was long, or began long after the one before, is a break too: the state read at its
// end may be of a time in which no member could tell that it lives.
void Registration::keep() {
  const uint64_t lease_ns = options_.ttl_s * kSecond;
  while (wait(lease_ns / kLooksPerLease)) {
    const uint64_t begun = boottime_clock().now_ns();
    if (begun - heard_ns_ > lease_ns / 2) heard_since_ns_.reset();
    auto kept = keep_once(begun);
    if (!kept && kept.error().code == Code::kExists) {
      options_.hooks.ends(kept.error().message + "; this process ends");
    }
    if (!kept) {
      options_.hooks.drained(false);  // as far as it knows
      heard_since_ns_.reset();
      if (!std::exchange(told_of_trouble_, true)) log_warning(kept.error().message);
      continue;
    }
    told_of_trouble_ = false;
    heard_ns_ = begun;
    if (!heard_since_ns_) heard_since_ns_ = begun;
  }
}

Result<void> Registration::keep_once(uint64_t begun_ns) {
  const uint64_t lease_ns = options_.ttl_s * kSecond;
  auto kept = client_.keep_alive(lease_, deadline());
  if (!kept && kept.error().code != Code::kNotFound) return tl::unexpected(kept.error());
  const auto read = this->read();
  if (!read) return tl::unexpected(read.error());
  const FleetRecord& fleet = **read;
  if (!kept || !is_own(fleet.find(options_.self.id))) {
    heard_since_ns_.reset();
    return enroll(false);
  }
  const Member* self = fleet.registered.epoch.find(options_.self.id);
  const bool drained = std::ranges::find(fleet.drained, options_.self.name) != fleet.drained.end();
  options_.hooks.drained(drained && self != nullptr && self->leaving);
  const uint64_t now = boottime_clock().now_ns();
  const bool heard_long = heard_since_ns_ && now - *heard_since_ns_ >= lease_ns;
  const bool is_sure = heard_long && now - begun_ns <= lease_ns / 2;
  if (is_sure) leave_out_silent(fleet);
  return leave_out_unreached(fleet, is_sure);
}

// Its own run before is as dead as those of whom nothing is heard, and no other node can know: the
// name's record is this process's.
bool Registration::is_silent(const FleetRecord& fleet, const Member& member) const {
  if (member.node == options_.self.id) return former_ == member.incarnation;
  return fleet.find(member.node) == nullptr;
}

void Registration::leave_out_silent(const FleetRecord& fleet) {
  std::vector<NodeId> silent;
  for (const Member& member : fleet.registered.epoch.members) {
    if (is_silent(fleet, member)) silent.push_back(member.node);
  }
  leave_out(fleet, silent, "nothing was heard of them");
}

// Where nobody but those that were to go is left, they stay.
void Registration::leave_out(const FleetRecord& fleet, const std::vector<NodeId>& nodes,
                             const std::string& why) {
  Epoch next = fleet.registered.epoch;
  std::string names;
  std::erase_if(next.members, [&](const Member& member) {
    if (std::ranges::find(nodes, member.node) == nodes.end()) return false;
    names += fmt::format(" {:016x}", member.node);
    return true;
  });
  if (names.empty() || next.members.empty()) return;
  if (next.holders() == 0) {
    for (Member& member : next.members) member.leaving = false;
  }
  auto replaced = replace(fleet, std::move(next));
  if (!replaced) return log_warning(replaced.error().message);
  if (*replaced) log_warning(fmt::format("left out of the fleet, for {}:{}", why, names));
}

void Registration::tell_away(uint64_t epoch, const std::vector<NodeId>& nodes) {
  const std::lock_guard lock(mutex_);
  absences_.tell(epoch, nodes, boottime_clock().now_ns());
}

// A node that was stopped for a moment keeps its place.
AwayRecord Registration::away_for_long(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  auto nodes = absences_.for_long(epoch, options_.ttl_s * kSecond / kAwayPerLease,
                                  boottime_clock().now_ns());
  if (nodes.empty()) return {};
  return {options_.self.id, epoch, std::move(nodes)};
}

// A member that others do not reach keeps its lease all the same. What the others say of it is
// asked only where this one does not reach it either. `is_sure`: etcd has been heard for a lease,
// so that the others had as long to find each other after a cut.
Result<void> Registration::leave_out_unreached(const FleetRecord& fleet, bool is_sure) {
  const AwayRecord away = away_for_long(fleet.registered.epoch.number);
  if (auto said = say_away(away); !said || away.nodes.empty() || !is_sure) return said;
  auto reply = client_.run(read_away(client_.prefix()), deadline());
  if (!reply) return tl::unexpected(reply.error());
  std::vector<Process> processes;
  for (const NodeRecord& node : fleet.nodes) {
    processes.push_back({node.id, node.revision > fleet.epoch_revision});
  }
  leave_out(
      fleet,
      reached_by_nobody(fleet.registered.epoch, processes, decode_away(client_.prefix(), *reply)),
      "no other member reaches them");
  return {};
}

Result<void> Registration::say_away(const AwayRecord& away) {
  if (away == away_written_) return {};
  const std::string key = away_key(client_.prefix(), options_.self.id);
  Transaction transaction;
  transaction.conditions = {registered()};
  if (away.nodes.empty()) {
    transaction.operations = {{Operation::Kind::kErase, key}};
  } else {
    transaction.operations = {{Operation::Kind::kPut, key, encode(away), lease_}};
  }
  away_written_.reset();  // an answer that is lost leaves it open
  auto written = client_.run(transaction, deadline());
  if (!written) return tl::unexpected(written.error());
  if (written->held) away_written_ = away;
  return {};
}

// False: another epoch has begun meanwhile, or another process has this name.
Result<bool> Registration::replace(const FleetRecord& fleet, Epoch next) {
  ++next.number;
  next.set_replicas(options_.terms.replicas);
  if (auto valid = validate(next); !valid) return tl::unexpected(valid.error());
  Transaction transaction;
  transaction.conditions = {{epoch_key(client_.prefix()), fleet.epoch_revision}, registered()};
  transaction.operations = {{Operation::Kind::kPut, epoch_key(client_.prefix()), encode(next)}};
  auto reply = client_.run(transaction, deadline());
  if (!reply) return tl::unexpected(reply.error());
  return reply->held;
}

void Registration::leave() {
  end_thread();
  for (int i = 0; i < kTries; ++i) {
    const auto fleet = read();
    if (!fleet || !is_own((*fleet)->find(options_.self.id))) return;
    const Epoch& current = (*fleet)->registered.epoch;
    Epoch next = current;
    std::erase_if(next.members,
                  [this](const Member& member) { return member.node == options_.self.id; });
    if (next.holders() == 0 || next.members == current.members) break;
    auto replaced = replace(**fleet, std::move(next));
    if (!replaced || *replaced) break;
  }
  Transaction forget;
  forget.operations = {
      {Operation::Kind::kErase, drained_key(client_.prefix(), options_.self.name)}};
  (void)client_.run(forget, deadline());
  (void)client_.revoke(lease_, deadline());
}

}  // namespace farpage::etcd
