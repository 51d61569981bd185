#include "etcd/register.h"

#include <algorithm>

namespace farpage::etcd {
namespace {

constexpr uint64_t kWatchAgainNs = kSecond / 2;

}  // namespace

Register::Register(Runtime& runtime, FleetReader& reader, Options options)
    : runtime_(runtime), reader_(reader), client_(reader.client()), options_(std::move(options)) {}

// Answers of the jobs until then wait on the runtime, and find this gone.
Register::~Register() {
  client_.stop();
  jobs_.stop();
}

void Register::answer(std::function<void()> callback) {
  runtime_.after(0, [callback = std::move(callback), alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) callback();
  });
}

Result<RegisteredEpoch> Register::read_now() {
  const auto fleet = reader_.read(boottime_clock().now_ns() + options_.call_ns);
  if (!fleet) return tl::unexpected(fleet.error());
  if (auto same = (*fleet)->check_id(options_.fleet_id); !same) {
    return tl::unexpected(same.error());
  }
  note(**fleet);
  return (*fleet)->registered;
}

// Reads may pass each other.
void Register::note(const FleetRecord& fleet) {
  const std::lock_guard lock(mutex_);
  if (fleet.revision < noted_) return;
  const bool is_new = fleet.revision > noted_;
  noted_ = fleet.revision;
  epoch_revision_ = fleet.epoch_revision;
  number_ = fleet.registered.epoch.number;
  if (!is_new || number_ < heard_epoch_) return;
  for (const NodeRecord& node : fleet.nodes) addresses_[node.id] = node.address;
}

Result<void> Register::write_now(uint64_t current, Transaction transaction) {
  {
    const std::lock_guard lock(mutex_);
    if (current != number_) return fail(Code::kAborted, "another epoch has begun meanwhile");
    transaction.conditions.push_back({epoch_key(client_.prefix()), epoch_revision_});
  }
  if (options_.registered) transaction.conditions.push_back(options_.registered());
  auto reply = client_.run(transaction, boottime_clock().now_ns() + options_.call_ns);
  if (!reply) return tl::unexpected(reply.error());
  if (reply->held) return {};
  return fail(Code::kAborted,
              "another epoch has begun meanwhile, or another process has this name");
}

template <typename T>
void Register::ask(std::function<Result<T>()> call, std::function<void(Result<T>)> done) {
  const bool taken = jobs_.take(JobClass::kDial, [this, call = std::move(call), done] {
    answer([done, result = call()] { done(result); });
  });
  if (taken) return;
  answer([done = std::move(done)] {
    done(fail(Code::kExhausted,
              "cannot start a thread that asks etcd: raise the limit of processes (ulimit -u)"));
  });
}

void Register::read(std::function<void(Result<RegisteredEpoch>)> done) {
  ask<RegisteredEpoch>([this] { return read_now(); }, std::move(done));
}

void Register::replace(uint64_t current, Epoch next, std::function<void(Result<void>)> done) {
  if (auto valid = validate(next); !valid) return answer([done, valid] { done(valid); });
  Transaction transaction;
  transaction.operations = {{Operation::Kind::kPut, epoch_key(client_.prefix()), encode(next)}};
  ask<void>([this, current, transaction] { return write_now(current, transaction); },
            std::move(done));
}

void Register::confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) {
  Transaction transaction;
  transaction.operations = {
      {Operation::Kind::kPut, confirmed_key(client_.prefix(), node), encode_confirmed(number)}};
  ask<void>([this, number, transaction] { return write_now(number, transaction); },
            std::move(done));
}

std::shared_ptr<void> Register::when_changed(const std::function<void()>& changed) {
  auto hook = std::make_shared<std::function<void()>>(changed);
  if (hooks_.empty()) watch();
  hooks_.push_back(hook);
  return hook;
}

void Register::tell() {
  std::erase_if(hooks_, [](const auto& hook) { return hook.expired(); });
  for (const auto& waiting : std::vector(hooks_)) {
    if (const auto hook = waiting.lock()) (*hook)();
  }
}

// One after the other, as long as there is a watcher. Opening the next watch triggers a read, which
// sees the changes between the two.
void Register::watch() {
  const auto again = [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    std::erase_if(hooks_, [](const auto& hook) { return hook.expired(); });
    if (!hooks_.empty()) watch();
  };
  const bool taken = jobs_.take(JobClass::kDial, [this, again] {
    const auto changed = [this] { answer([this] { tell(); }); };
    client_.watch(epoch_key(client_.prefix()), boottime_clock().now_ns() + options_.call_ns,
                  changed, changed);
    runtime_.after(kWatchAgainNs, again);
  });
  if (!taken) runtime_.after(kWatchAgainNs, again);
}

std::string Register::address_of(NodeId node) const {
  const std::lock_guard lock(mutex_);
  const auto found = addresses_.find(node);
  return found == addresses_.end() ? std::string() : found->second;
}

void Register::heard_of(uint64_t epoch, NodeId node, const std::string& address) {
  const std::lock_guard lock(mutex_);
  heard_epoch_ = std::max(heard_epoch_, epoch);
  addresses_[node] = address;
}

}  // namespace farpage::etcd
