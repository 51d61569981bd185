#include "node/settings/epoch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "integrity/page_header.h"

namespace farpage {
namespace {

// One line, shorter than any sector, so that a crash leaves the old one or the new one.
constexpr const char* kLine = "farpage-node-state 1 epoch %020lu lease_ns %020lu\n";
constexpr size_t kMaxLineBytes = 128;

std::string make_line(uint64_t epoch, uint64_t lease_ns) {
  std::array<char, kMaxLineBytes> line;
  const int length = std::snprintf(line.data(), line.size(), kLine, epoch, lease_ns);
  return {line.data(), static_cast<size_t>(length)};
}

}  // namespace

Result<EpochFile> EpochFile::open(const std::string& path) {
  EpochFile file;
  file.path_ = path;
  file.fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.fd_.valid()) {
    return fail_errno(errno, fmt::format("cannot open the state file {}: make its folder, or name "
                                         "another file with --state (node.state)",
                                         path));
  }
  if (::flock(file.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::kExists,
                fmt::format("another node uses the state file {}: give each node its "
                            "own with node.state",
                            path));
  }
  file.closed_in_child_ = ClosedInChild(file.fd_.get());
  std::array<char, kMaxLineBytes> line = {};
  const ssize_t got = ::pread(file.fd_.get(), line.data(), line.size() - 1, 0);
  if (got < 0) return fail_errno(errno, fmt::format("cannot read the state file {}", path));
  if (got == 0) return file;
  if (std::sscanf(line.data(), "farpage-node-state 1 epoch %20lu lease_ns %20lu", &file.epoch_,
                  &file.previous_lease_ns_) != 2 ||
      make_line(file.epoch_, file.previous_lease_ns_) !=
          std::string_view(line.data(), static_cast<size_t>(got))) {
    return fail(
        Code::kInvalid,
        fmt::format("the state file {} is damaged, and with it the last epoch: name another "
                    "file with node.state once no client of this node runs any more",
                    path));
  }
  return file;
}

Result<uint64_t> EpochFile::advance(uint64_t lease_ns, uint64_t least) {
  const uint64_t next = std::max(epoch_ + 1, least);
  if (next > kMaxEpoch) {
    return fail(Code::kExhausted, fmt::format("the state file {} has used up its epochs", path_));
  }
  // A run that ends before puts open has not outlived the lease of the one before it.
  const bool passes_over = next > epoch_ + 1;
  const uint64_t previous = std::max(previous_lease_ns_, passes_over ? lease_ns : 0);
  auto written = write(next, std::max(lease_ns, previous));
  if (!written) return tl::unexpected(written.error());
  previous_lease_ns_ = previous;
  return epoch_ = next;
}

Result<void> EpochFile::forget_previous_lease(uint64_t lease_ns) {
  previous_lease_ns_ = 0;
  return write(epoch_, lease_ns);
}

Result<void> EpochFile::write(uint64_t epoch, uint64_t lease_ns) {
  const std::string line = make_line(epoch, lease_ns);
  const auto length = static_cast<ssize_t>(line.size());
  std::error_code error;  // the folder that a relative path begins in may be gone
  const std::string folder = std::filesystem::absolute(path_, error).parent_path().string();
  UniqueFd folder_fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::pwrite(fd_.get(), line.data(), line.size(), 0) != length ||
      ::ftruncate(fd_.get(), length) != 0 || ::fsync(fd_.get()) != 0 || !folder_fd.valid() ||
      ::fsync(folder_fd.get()) != 0) {
    return fail_errno(errno, fmt::format("cannot sync the state file {}", path_));
  }
  return {};
}

}  // namespace farpage
