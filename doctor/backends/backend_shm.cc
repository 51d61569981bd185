#include "doctor/backends/backend_shm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/memory/mapping.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace farpage::doctor {
namespace {

using Step = ShmFacts::Step;

constexpr uint64_t kNoexecEnforced = 2;
constexpr uint64_t kTriedBytes = 64 * kKiB;

// For each client: its staging and the staging's channel, and the read channels of two lanes.
constexpr uint64_t kMappingsOfClient = 4;
constexpr uint64_t kDescriptorsOfShmClient = 2;  // control and staging

// After the seal a peer must be able to read, and not to write.
Step try_peer(int fd) {
  const auto peer = Mapping::share(fd, kTriedBytes, Protection::kReadOnly);
  if (!peer || *peer->data() != std::byte{1}) return Step::kReadOnly;
  return Mapping::share(fd, kTriedBytes, Protection::kReadWrite) ? Step::kReadOnly : Step::kDone;
}

Step try_sharing() {
  const UniqueFd fd(::memfd_create("farpage-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Step::kCreate;
  if (::ftruncate(fd.get(), kTriedBytes) != 0) return Step::kSize;
  const auto own = Mapping::share(fd.get(), kTriedBytes, Protection::kReadWrite);
  if (!own) return Step::kMap;
  *own->data() = std::byte{1};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Step::kSeal;
  return try_peer(fd.get());
}

std::string newer_kernel(const Privileges& privileges) {
  return privileges.as_root("apt-get install linux-image-amd64");
}

HostSide look(const ShmFacts& facts, const Privileges& privileges) {
  const char* why = std::strerror(facts.error);
  switch (facts.failed) {
    case Step::kCreate:
      if (facts.memfd_noexec >= kNoexecEnforced) {
        return {Level::kProblem, "memfd_create is refused, because vm.memfd_noexec is 2",
                privileges.set_sysctl("vm.memfd_noexec", "1")};
      }
      if (facts.error == EMFILE) {
        return {Level::kProblem, "memfd_create: no descriptor is left", "ulimit -n 1024"};
      }
      return {Level::kProblem,
              fmt::format("memfd_create is refused ({}): most likely by a container's seccomp "
                          "profile, which this shows",
                          why),
              "grep Seccomp /proc/self/status"};
    case Step::kSize:
    case Step::kMap:
      return {Level::kProblem,
              fmt::format("cannot get {} of shared memory ({})", format_bytes(kTriedBytes), why),
              "ulimit -v unlimited -f unlimited"};
    case Step::kSeal:
      return {
          Level::kProblem,
          fmt::format("shared memory cannot be sealed with F_SEAL_FUTURE_WRITE ({}): that needs "
                      "Linux 5.1, and farpage 5.3",
                      why),
          newer_kernel(privileges)};
    case Step::kReadOnly:
      return {Level::kProblem, "sealed memory cannot be read, or can still be written, by a peer",
              newer_kernel(privileges)};
    case Step::kDone:
      break;
  }
  return {Level::kOk, "memory was shared, sealed, and read back", ""};
}

}  // namespace

ShmFacts read_shm(const HostFiles& files) {
  ShmFacts facts;
  errno = 0;
  facts.failed = try_sharing();
  facts.error = errno;
  facts.memfd_noexec = files.number("/proc/sys/vm/memfd_noexec").value_or(0);
  return facts;
}

Finding check_shm(const ShmFacts& facts, const Wanted& wanted, const Privileges& privileges) {
  return backend_finding(kShmCheck, look(facts, privileges), wanted);
}

const BackendCheck kShmCheck = {
    .name = "shm",
    .runs_anywhere = true,
    .mappings_of_client = kMappingsOfClient,
    .descriptors_of_client =
        [](size_t) {
          return DescriptorsOfClient{kDescriptorsOfShmClient, "shm"};
        },
    .examine =
        [](const Wanted& wanted, const HostFiles& files, const Privileges& privileges) {
          return check_shm(read_shm(files), wanted, privileges);
        },
};

}  // namespace farpage::doctor
