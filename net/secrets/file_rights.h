#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"

struct stat;

namespace farpage {

// Refuses a file that others than its owner may use, but for one of root's that a group may read
// (Kubernetes mounts Secrets so). `what` it holds: "the token"; `user`: whose process it is.
Result<void> judge_rights(const struct stat& status, uid_t user, const std::string& path,
                          const std::string& what);

// "root:daemon, mode 0640".
std::string describe_rights(const std::string& path);
// The first of the folders on the way to it that this process may not enter; "": none.
std::string closed_folder(const std::string& path);

// How long what is in a pipe, such as bash's <(…), may take to come.
constexpr uint64_t kPipePatienceNs = 10 * kSecond;

// What a small file holds, at most 1 MiB; whoever may use it. An error says why it cannot be read
// and what would mend that; `missing`: what to do where there is none, such as "make one with …".
Result<std::string> read_small_file(const std::string& path, const std::string& what,
                                    const std::string& missing,
                                    uint64_t patience_ns = kPipePatienceNs);

// The same of a file that its owner alone may use: the rights are those of the file that is read,
// whatever stands at its path by then.
Result<std::string> read_private_file(const std::string& path, const std::string& what,
                                      const std::string& missing);

}  // namespace farpage
