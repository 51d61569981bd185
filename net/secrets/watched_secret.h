#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "net/secrets/secret_watch.h"

namespace farpage {

// The last value made of a secret's files, or none. Each new connection takes it anew, and keeps
// its value. Copies share it. Thread-safe.
template <typename T>
class WatchedSecret {
 public:
  WatchedSecret() : WatchedSecret(nullptr) {}
  // One that stays as it is, unless it is set.
  WatchedSecret(std::nullptr_t) : state_(std::make_shared<State>()) {}
  WatchedSecret(std::shared_ptr<T> value) : WatchedSecret(nullptr) { set(std::move(value)); }
  WatchedSecret(T value) requires std::move_constructible<T>
      : WatchedSecret(std::make_shared<T>(std::move(value))) {}

  // One that is made again when a file has changed. `what`: in messages.
  static Result<WatchedSecret> watch(std::string what, std::vector<std::string> paths,
                                     std::function<Result<std::shared_ptr<T>>()> make) {
    WatchedSecret secret;
    // The watch is the state's own, and so goes before it.
    const auto read = [state = secret.state_.get(), make = std::move(make)](const auto&) {
      return SecretFiles::Results{
          make().map([state](std::shared_ptr<T> made) { state->set(std::move(made)); })};
    };
    SecretFiles::Secret files = {.what = std::move(what), .paths = std::move(paths)};
    if constexpr (requires(const T& value) { value.expires_s(); }) {
      files.expires_s = [state = secret.state_.get()] { return state->get()->expires_s(); };
    }
    auto watch = SecretWatch::begin({.secrets = {std::move(files)}, .read = read});
    if (!watch) return tl::unexpected(watch.error());
    secret.state_->watch = std::move(*watch);
    return secret;
  }

  void set(std::shared_ptr<T> value) { state_->set(std::move(value)); }
  // Null: there is none.
  std::shared_ptr<T> get() const { return state_->get(); }
  T value() const {
    const auto value = get();
    return value == nullptr ? T{} : *value;
  }
  bool operator==(std::nullptr_t) const { return get() == nullptr; }

 private:
  struct State {
    void set(std::shared_ptr<T> value) {
      const std::lock_guard lock(mutex);
      current.swap(value);
    }
    std::shared_ptr<T> get() const {
      const std::lock_guard lock(mutex);
      return current;
    }

    mutable std::mutex mutex;
    std::shared_ptr<T> current;
    std::unique_ptr<SecretWatch> watch;  // last: it uses the others
  };

  std::shared_ptr<State> state_;
};

}  // namespace farpage
