#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

struct stat;

namespace farpage {

// Refuses a file that others than its owner may use, but for one of root's that a group may read
// (Kubernetes mounts Secrets so). `what` it holds: "the token". The reader of the path refuses
// anything but a file.
Result<void> check_private(const std::string& path, const std::string& what);

// The same of a file that is known; `user`: whose process it is.
Result<void> judge_rights(const struct stat& status, uid_t user, const std::string& path,
                          const std::string& what);

// "root:daemon, mode 0640".
std::string describe_rights(const std::string& path);
// The first of the folders on the way to it that this process may not enter; "": none.
std::string closed_folder(const std::string& path);

// The content of a small file, at most 1 MiB, whatever its rights. An error says why it cannot be
// read and what would mend that; `missing`: what to do where there is none, such as "make one with
// …".
Result<std::string> read_small_file(const std::string& path, const std::string& what,
                                    const std::string& missing);

}  // namespace farpage
