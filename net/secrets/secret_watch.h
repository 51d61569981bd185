#pragma once

#include <memory>

#include "base/status.h"
#include "net/secrets/secret_files.h"

namespace farpage {

class SecretWatcher;

// Looks at a secret's files once a second, as long as this lives, on a thread of which the process
// has one, and logs what there is to tell.
class SecretWatch {
 public:
  static Result<std::unique_ptr<SecretWatch>> begin(SecretFiles::Options options);
  ~SecretWatch();

 private:
  SecretWatch(std::unique_ptr<SecretFiles> files, std::shared_ptr<SecretWatcher> watcher);

  std::shared_ptr<SecretWatcher> watcher_;
  std::unique_ptr<SecretFiles> files_;
};

// All of them at once, whether or not they seem to have changed; returns before it is done.
void read_secrets_again();

}  // namespace farpage
