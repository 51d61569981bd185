#include "cli/node/held_pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "cli/client/descriptors.h"

namespace farpage {
namespace {

UniqueFd duplicate(const UniqueFd& file) {
  return UniqueFd(file.valid() ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0) : -1);
}

// A description of its own of the same file, or at least that one.
UniqueFd open_again(const UniqueFd& file) {
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  UniqueFd again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return again.valid() ? std::move(again) : duplicate(file);
}

void say(const std::string& words, const UniqueFd& file) {
  const int fd = file.get();
  const unsigned files = file.valid() ? 1 : 0;
  const int told = ::sd_pid_notify_with_fds(0, 0, words.c_str(), &fd, files);
  if (told >= 0) return;
  const char* socket = std::getenv("NOTIFY_SOCKET");
  log_warning(
      fmt::format("cannot hand this node's memory over by {} (NOTIFY_SOCKET: {}): its pages end "
                  "with this process, unless its next run finds that socket again",
                  socket != nullptr ? socket : "a socket", std::strerror(-told)));
}

// Names of tenants' pools begin with whose they are, and those of others never so.
constexpr std::string_view kTenants = "tenant-";

}  // namespace

class HeldPools::Pool final : public PoolHandoff {
 public:
  Pool(HeldPools& all, const std::string& owner, uint64_t fleet)
      : all_(all),
        prefix_(owner.empty() ? "" : fmt::format("{}{}-", kTenants, owner)),
        fleet_(fleet) {}

  bool is_of_it(const std::string& held_name) const {
    return prefix_.empty() ? !held_name.starts_with(kTenants) : held_name.starts_with(prefix_);
  }

  UniqueFd kept(const std::string& name) override {
    if (name == name_ && file_.valid()) return duplicate(file_);
    const auto found = all_.files_.find(held_name(name, all_.last_epoch_));
    return found == all_.files_.end() ? UniqueFd() : duplicate(found->second);
  }
  // Held memory stays held until this run has an epoch: until then the next one goes on with that.
  void keep(const std::string& name, const UniqueFd& file) override {
    name_ = name;
    file_ = duplicate(file);
    if (!file_.valid()) {
      give_up();
    } else if (all_.epoch_ != 0) {
      hold();
    }
  }

  // Stored before what was held is removed, so that the end of this process in between loses
  // nothing; opened once more, for systemd takes no description twice, whatever the name. Where it
  // cannot tell two of one file, or has no room, it has not taken it: hence again after that
  // (decision 20).
  void hold() {
    if (!file_.valid()) return;
    const std::string name = held_name(name_, all_.epoch_);
    const auto found = all_.files_.find(name);
    if (found != all_.files_.end() && is_same_file(found->second, file_)) return;
    UniqueFd again = open_again(file_);
    const std::string words = "FDSTORE=1\nFDNAME=" + name;
    // By its name a file is removed: two of one name cannot be told apart.
    if (found == all_.files_.end()) say(words, again);
    if (give_up()) say(words, again);
    all_.files_.emplace(name, std::move(again));
  }

 private:
  std::string held_name(const std::string& name, uint64_t epoch) const {
    return fmt::format("{}{}-{:x}-{}", prefix_, name, fleet_, epoch);
  }
  bool give_up() {
    return all_.give_up([this](const std::string& name) { return is_of_it(name); });
  }

  HeldPools& all_;
  const std::string prefix_;
  const uint64_t fleet_;
  std::string name_;  // of what this run keeps
  UniqueFd file_;
};

HeldPools::HeldPools(std::map<std::string, UniqueFd> files) : files_(std::move(files)) {}
HeldPools::~HeldPools() = default;

std::unique_ptr<HeldPools> HeldPools::take_over() {
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  std::map<std::string, UniqueFd> files;
  for (int i = 0; i < count; ++i) {
    files.insert_or_assign(names[i], UniqueFd(SD_LISTEN_FDS_START + i));
    std::free(names[i]);
  }
  std::free(names);
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return nullptr;
  return std::make_unique<HeldPools>(std::move(files));
}

PoolHandoff& HeldPools::pool_of(const std::string& owner, uint64_t fleet) {
  return pools_.emplace_back(*this, owner, fleet);
}

void HeldPools::give_up_others() {
  give_up([this](const std::string& name) {
    return std::ranges::none_of(pools_, [&](const Pool& pool) { return pool.is_of_it(name); });
  });
}

void HeldPools::began(uint64_t epoch) {
  epoch_ = epoch;
  for (Pool& pool : pools_) pool.hold();
}

template <typename Fits>
bool HeldPools::give_up(const Fits& fits) {
  return std::erase_if(files_, [&](const auto& held) {
           if (!fits(held.first)) return false;
           say("FDSTOREREMOVE=1\nFDNAME=" + held.first, {});
           return true;
         }) > 0;
}

void tell_ready() {
  (void)::sd_notify(0, "READY=1");
}

Result<void> check_ready_fd(int ready_fd) {
  const char* handed_to = std::getenv("LISTEN_PID");
  const bool is_handed = handed_to != nullptr && handed_to == std::to_string(::getpid());
  if (ready_fd < SD_LISTEN_FDS_START || !is_handed) return {};
  return fail(
      Code::kInvalid,
      fmt::format("--ready-fd {}: the memory held for this node comes as descriptors from {} on. "
                  "Leave --ready-fd out: the holder is told when the node serves (READY=1)",
                  ready_fd, SD_LISTEN_FDS_START));
}

}  // namespace farpage
