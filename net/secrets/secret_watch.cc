#include "net/secrets/secret_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"

namespace farpage {

class SecretWatcher {
 public:
  // Throws std::system_error, if there is no thread to be had.
  SecretWatcher() : thread_([this] { run(); }) {}
  ~SecretWatcher() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  SecretWatcher(const SecretWatcher&) = delete;
  SecretWatcher& operator=(const SecretWatcher&) = delete;

  void add(SecretFiles* files) {
    const std::lock_guard lock(files_mutex_);
    files_.push_back(files);
  }
  // Once it has returned no thread looks at them.
  void remove(SecretFiles* files) {
    const std::lock_guard lock(files_mutex_);
    std::erase(files_, files);
  }
  void read_again() {
    {
      const std::lock_guard lock(mutex_);
      is_asked_ = true;
    }
    changed_.notify_all();
  }

 private:
  static constexpr auto kPause = std::chrono::seconds(1);

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait_for(lock, kPause, [this] { return ends_ || is_asked_; });
      if (ends_) return;
      const bool at_once = std::exchange(is_asked_, false);
      lock.unlock();
      look(at_once);
      lock.lock();
    }
  }

  static void tell(const SecretFiles::Word& word) {
    word.is_warning ? log_warning(word.text) : log_info(word.text);
  }

  // Several secrets may be of the same files: what is said of them is said once.
  void look(bool at_once) {
    const std::lock_guard lock(files_mutex_);
    std::set<std::string> told;
    bool reads_any = false;
    bool nothing_new = true;
    for (SecretFiles* files : files_) {
      const auto words = files->look(at_once);
      reads_any |= files->is_watched();
      nothing_new &= words.empty() || !files->is_watched();
      for (const SecretFiles::Word& word : words) {
        if (told.insert(word.text).second) tell(word);
      }
    }
    if (at_once && reads_any && nothing_new) {
      log_info("the files of tokens, certificates and passwords were read again: none has changed");
    }
  }

  std::mutex files_mutex_;  // held while they are looked at
  std::vector<SecretFiles*> files_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ends_ = false;
  bool is_asked_ = false;
  std::thread thread_;  // last: it uses the others
};

namespace {

std::mutex running_mutex;
std::weak_ptr<SecretWatcher> running;  // there is one while there are files to look at

std::shared_ptr<SecretWatcher> start_or_share() {
  const std::lock_guard lock(running_mutex);
  auto watcher = running.lock();
  if (watcher == nullptr) {
    watcher = std::make_shared<SecretWatcher>();
    running = watcher;
  }
  return watcher;
}

}  // namespace

Result<std::unique_ptr<SecretWatch>> SecretWatch::begin(SecretFiles::Options options) {
  auto files = SecretFiles::open(std::move(options));
  if (!files) return tl::unexpected(files.error());
  try {
    return std::unique_ptr<SecretWatch>(new SecretWatch(std::move(*files), start_or_share()));
  } catch (const std::system_error& error) {
    return fail(Code::kExhausted,
                fmt::format("cannot start the thread that watches the files of secrets ({}): raise "
                            "the limit of processes (ulimit -u)",
                            error.what()));
  }
}

SecretWatch::SecretWatch(std::unique_ptr<SecretFiles> files, std::shared_ptr<SecretWatcher> watcher)
    : watcher_(std::move(watcher)), files_(std::move(files)) {
  watcher_->add(files_.get());
}

SecretWatch::~SecretWatch() {
  watcher_->remove(files_.get());
}

void read_secrets_again() {
  std::shared_ptr<SecretWatcher> watcher;
  {
    const std::lock_guard lock(running_mutex);
    watcher = running.lock();
  }
  if (watcher == nullptr) return log_info("no file holds a secret of this process");
  watcher->read_again();
}

}  // namespace farpage
