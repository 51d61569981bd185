#include "cli/held_pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <systemd/sd-daemon.h>

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

UniqueFd HeldPools::kept(const std::string& name) {
  const auto found = files_.find(name);
  return found == files_.end() ? UniqueFd() : duplicate(found->second);
}

void HeldPools::keep(const std::string& name, const UniqueFd& file) {
  for (const auto& [other, gone] : std::exchange(files_, {})) {
    say("FDSTOREREMOVE=1\nFDNAME=" + other, {});
  }
  if (!file.valid()) return;
  say("FDSTORE=1\nFDNAME=" + name, file);
  files_.emplace(name, duplicate(file));
}

void tell_ready() {
  (void)::sd_notify(0, "READY=1");
}

}  // namespace farpage
