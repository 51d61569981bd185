#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace farpage {

// An object that some threads replace and others use: a shared_ptr, and a number that changes with
// it. A thread that must not wait for another one, which may have lost its processor, looks at the
// number, and takes the object with try_take(). Any thread. `Mutex`: tests have one of their own.
template <typename T, typename Mutex = std::mutex>
class Published {
 public:
  // Wait-free.
  uint64_t number() const { return number_.load(std::memory_order_acquire); }

  // Null before the first publish(). May wait while another thread copies or replaces it.
  std::shared_ptr<T> get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  // Waits for nobody. False: another thread is copying or replacing the object, and nothing has
  // changed here.
  bool try_take(std::shared_ptr<T>& value, uint64_t& number) const {
    std::shared_ptr<T> taken;
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock.owns_lock()) return false;
      taken = value_;
      number = number_.load(std::memory_order_relaxed);
    }
    value = std::move(taken);  // what goes with the former may take a while
    return true;
  }

  // Answers with what `next` replaces, so that the caller says where it is destroyed.
  [[nodiscard]] std::shared_ptr<T> publish(std::shared_ptr<T> next) {
    const std::lock_guard lock(mutex_);
    number_.fetch_add(1, std::memory_order_acq_rel);
    return std::exchange(value_, std::move(next));
  }

  // For those who look at the number: as if the object had been replaced.
  void touch() { number_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  friend struct HeldPublication;  // tests: as a thread that has lost its processor meanwhile

  mutable Mutex mutex_;  // held for a copy or an exchange of a pointer, and nothing else
  std::shared_ptr<T> value_;
  std::atomic<uint64_t> number_{0};
};

}  // namespace farpage
