#pragma once

#include <string>
#include <utility>

#include "base/process/closed_in_child.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace farpage {

// A new folder below $TMPDIR (or /tmp) that no other user may enter, removed with all that is in it
// by the destructor, unless the caller keeps it; or, where the process was killed before that, by
// the next one that makes such a folder there.
class PrivateFolder {
 public:
  static Result<PrivateFolder> create();
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::string& path() const { return path_; }
  // Its path.
  std::string keep();

 private:
  PrivateFolder(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)), closed_in_child_(lock_.get()) {}

  std::string path_;
  UniqueFd lock_;
  ClosedInChild closed_in_child_;
};

}  // namespace farpage
