#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/backend_options.h"
#include "cli/signals.h"
#include "net/address.h"

namespace farpage {

// A new folder below $TMPDIR (or /tmp) that nobody else may enter, removed with all that is in it
// by the destructor.
class PrivateFolder {
 public:
  static Result<PrivateFolder> create();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct OwnNodeOptions {
  std::string backend;  // tcp: on a free port of the loopback
  BackendOptions backends = {};
  uint64_t pool_bytes = 0;
  uint64_t page_bytes = 0;
};

// A memory node of this program's own: `farpage node` in a process of its own, on a socket in a
// private folder or a free port. It ends with this object, and with the thread that started it,
// whatever becomes of that.
class OwnNode {
 public:
  // Returns once the node serves, or with its own message when it cannot.
  static Result<std::unique_ptr<OwnNode>> start(const OwnNodeOptions& options,
                                                const Interrupts& interrupts);
  ~OwnNode();
  OwnNode(const OwnNode&) = delete;
  OwnNode& operator=(const OwnNode&) = delete;

  const Address& address() const { return address_; }

 private:
  OwnNode(PrivateFolder folder, const std::string& backend);
  Result<void> spawn(const OwnNodeOptions& options, const UniqueFd& ready);
  void stop();

  PrivateFolder folder_;
  Address address_;
  pid_t pid_ = -1;
};

}  // namespace farpage
