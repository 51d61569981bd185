#include "sim/sim_register.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace farpage {
namespace {

constexpr uint64_t kLooksPerDetection = 4;

}  // namespace

// A call is a request on its way, what the register does with it, and an answer on its way back.
class SimRegisterAccess final : public EpochRegister {
 public:
  SimRegisterAccess(SimRegister& epochs, size_t host, Runtime& runtime)
      : epochs_(epochs), host_(host), runtime_(runtime) {}

  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    const uint64_t sent_ns = epochs_.wire_.world.now_ns();
    ++epochs_.reads_[host_];
    call<RegisteredEpoch>([&epochs = epochs_] { return Result<RegisteredEpoch>(epochs.current_); },
                          [&epochs = epochs_, host = host_, sent_ns,
                           done = std::move(done)](Result<RegisteredEpoch> read) {
                            if (read && epochs.unread_.contains(host)) {
                              return done(fail(Code::kTimeout, "the register's answer is lost"));
                            }
                            if (read) epochs.answered(host, read->epoch.number, sent_ns);
                            done(std::move(read));
                          });
  }
  void replace(uint64_t current, Epoch next, std::function<void(Result<void>)> done) override {
    call<void>([&epochs = epochs_, current,
                next = std::move(next)] { return epochs.replace(current, next); },
               std::move(done));
  }
  void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) override {
    call<void>([&epochs = epochs_, node, number] { return epochs.confirm(node, number); },
               std::move(done));
  }

 private:
  // Answered, or given up: whichever comes first.
  template <typename T>
  struct Call {
    std::function<void(Result<T>)> done;
    void end(Result<T> result) {
      if (auto ended = std::exchange(done, nullptr)) ended(std::move(result));
    }
  };

  template <typename T, typename Act>
  void call(Act act, std::function<void(Result<T>)> done) {
    auto call = std::make_shared<Call<T>>();
    call->done = std::move(done);
    runtime_.after(epochs_.options_.timeout_ns, [call] {
      call->end(fail(Code::kTimeout, "the register has not answered in time"));
    });
    if (epochs_.lost()) return;
    epochs_.wire_.world.after(epochs_.wire_.delay(), [&epochs = epochs_, &runtime = runtime_,
                                                      host = host_, act = std::move(act), call] {
      if (!epochs.wire_.passes(host, epochs.host_)) return;
      Result<T> result = act();
      if (epochs.lost()) return;
      runtime.after(epochs.wire_.delay(), [&epochs, host, call, result = std::move(result)] {
        if (epochs.wire_.passes(host, epochs.host_)) call->end(result);
      });
    });
  }

  SimRegister& epochs_;
  const size_t host_;
  Runtime& runtime_;
};

SimRegister::SimRegister(SimWire& wire, size_t host, Epoch first, const SimRegisterOptions& options)
    : wire_(wire), host_(host), replicas_(first.replicas), options_(options) {
  for (const Member& member : first.members) heard_ns_[member.node] = wire_.world.now_ns();
  begin(std::move(first));
  if (options_.detect_ns > 0) watch();
}

std::unique_ptr<EpochRegister> SimRegister::access(size_t host, Runtime& runtime) {
  return std::make_unique<SimRegisterAccess>(*this, host, runtime);
}

void SimRegister::set_unread(size_t host, bool unread) {
  if (unread) {
    unread_.insert(host);
  } else {
    unread_.erase(host);
  }
}

uint64_t SimRegister::last_read_ns(size_t host) const {
  const auto found = read_ns_.find(host);
  return found == read_ns_.end() ? 0 : found->second;
}

uint64_t SimRegister::reads(size_t host) const {
  const auto found = reads_.find(host);
  return found == reads_.end() ? 0 : found->second;
}

uint64_t SimRegister::last_read_of_epoch_ns(uint64_t epoch) const {
  const auto found = epoch_read_ns_.find(epoch);
  return found == epoch_read_ns_.end() ? 0 : found->second;
}

void SimRegister::answered(size_t host, uint64_t epoch, uint64_t sent_ns) {
  for (uint64_t* newest_ns : {&read_ns_[host], &epoch_read_ns_[epoch]}) {
    *newest_ns = std::max(*newest_ns, sent_ns);
  }
}

void SimRegister::begin(Epoch next) {
  history_.push_back(next);
  begun_ns_.push_back(wire_.world.now_ns());
  current_ = {std::move(next), {}};
}

Result<void> SimRegister::replace(uint64_t number, Epoch next) {
  if (number != current_.epoch.number) {
    return fail(Code::kAborted, "another epoch has begun meanwhile");
  }
  FARPAGE_CHECK(next.number == number + 1);
  if (auto valid = validate(next); !valid) return valid;
  begin(std::move(next));
  return {};
}

Result<void> SimRegister::confirm(NodeId node, uint64_t number) {
  if (number != current_.epoch.number) {
    return fail(Code::kAborted, "another epoch has begun meanwhile");
  }
  if (std::ranges::find(current_.confirmed, node) == current_.confirmed.end()) {
    current_.confirmed.push_back(node);
  }
  return {};
}

void SimRegister::hear_from(NodeId node, size_t host, Runtime& runtime,
                            const std::weak_ptr<bool>& lives) {
  if (options_.detect_ns == 0 || lives.expired()) return;
  wire_.world.after(wire_.delay(), [this, node, host, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && wire_.passes(host, host_)) heard_ns_[node] = wire_.world.now_ns();
  });
  runtime.after(options_.detect_ns / kLooksPerDetection,
                [this, node, host, &runtime, lives, alive = std::weak_ptr(alive_)] {
                  if (!alive.expired()) hear_from(node, host, runtime, lives);
                });
}

void SimRegister::watch() {
  const uint64_t now = wire_.world.now_ns();
  Epoch next = current_.epoch;
  std::erase_if(next.members, [&](const Member& member) {
    return now - heard_ns_[member.node] > options_.detect_ns;
  });
  const size_t silent = current_.epoch.members.size() - next.members.size();
  if (silent > 0 && next.holders() > 0) {
    left_out_ += silent;
    ++next.number;
    next.set_replicas(replicas_);
    begin(std::move(next));
  }
  wire_.world.after(options_.detect_ns / kLooksPerDetection, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) watch();
  });
}

}  // namespace farpage
