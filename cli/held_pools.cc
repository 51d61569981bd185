#include "cli/held_pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/log.h"

namespace farpage {
namespace {

UniqueFd duplicate(const UniqueFd& file) {
  return UniqueFd(file.valid() ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0) : -1);
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
  auto held = std::make_unique<HeldPools>();
  for (int i = 0; i < count; ++i) {
    held->files_.insert_or_assign(names[i], UniqueFd(SD_LISTEN_FDS_START + i));
    std::free(names[i]);
  }
  std::free(names);
  return std::getenv("NOTIFY_SOCKET") == nullptr ? nullptr : std::move(held);
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

void HeldPools::keep(const std::string& name, const UniqueFd& file) {
  for (const auto& [other, gone] : std::exchange(files_, {})) {
    say("FDSTOREREMOVE=1\nFDNAME=" + other, {});
  }
  name_ = name;
  file_ = duplicate(file);
  if (file_.valid() && epoch_ != 0) hold();
}

void HeldPools::hold() {
  const std::string name = held_name(name_, fleet_, epoch_);
  say("FDSTORE=1\nFDNAME=" + name, file_);
  files_.emplace(name, duplicate(file_));
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
