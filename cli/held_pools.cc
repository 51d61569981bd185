#include "cli/held_pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "cli/descriptors.h"

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
  if (told < 0) log_warning(fmt::format("whoever holds the pool cannot be told: error {}", -told));
}

std::string held_name(const std::string& name, uint64_t fleet, uint64_t epoch) {
  return fmt::format("{}-{:x}-{}", name, fleet, epoch);
}

}  // namespace

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

void HeldPools::go_on_from(uint64_t last_epoch, uint64_t fleet) {
  last_epoch_ = last_epoch;
  fleet_ = fleet;
}

void HeldPools::began(uint64_t epoch) {
  epoch_ = epoch;
  if (file_.valid()) hold();
}

UniqueFd HeldPools::kept(const std::string& name) {
  if (name == name_ && file_.valid()) return duplicate(file_);
  const auto found = files_.find(held_name(name, fleet_, last_epoch_));
  return found == files_.end() ? UniqueFd() : duplicate(found->second);
}

// What was held stays so until this run has an epoch: until then the next one goes on with that.
void HeldPools::keep(const std::string& name, const UniqueFd& file) {
  name_ = name;
  file_ = duplicate(file);
  if (!file_.valid()) return give_up_all();
  if (epoch_ != 0) hold();
}

// Stored before what was held is removed, so that the end of this process in between loses nothing;
// opened once more, for systemd takes no description twice, whatever the name. Where it cannot tell
// two of one file, or has no room, it has not taken it: hence again after that (decision 20).
void HeldPools::hold() {
  const std::string name = held_name(name_, fleet_, epoch_);
  const auto found = files_.find(name);
  if (found != files_.end() && is_same_file(found->second, file_)) return;
  UniqueFd again = open_again(file_);
  const std::string words = "FDSTORE=1\nFDNAME=" + name;
  // By its name a file is removed: two of one name cannot be told apart.
  if (found == files_.end()) say(words, again);
  const bool in_place_of_another = !files_.empty();
  give_up_all();
  if (in_place_of_another) say(words, again);
  files_.emplace(name, std::move(again));
}

void HeldPools::give_up_all() {
  for (const auto& [name, file] : std::exchange(files_, {})) {
    say("FDSTOREREMOVE=1\nFDNAME=" + name, {});
  }
}

void tell_ready() {
  (void)::sd_notify(0, "READY=1");
}

Result<void> check_ready_fd(int ready_fd) {
  const char* handed_to = std::getenv("LISTEN_PID");
  const bool is_handed = handed_to != nullptr && handed_to == std::to_string(::getpid());
  if (ready_fd < SD_LISTEN_FDS_START || !is_handed) return {};
  return fail(Code::kInvalid,
              fmt::format("--ready-fd {}: what is held for this node comes as descriptors from {} "
                          "on. Leave --ready-fd out: who holds it hears that it serves (READY=1)",
                          ready_fd, SD_LISTEN_FDS_START));
}

}  // namespace farpage
