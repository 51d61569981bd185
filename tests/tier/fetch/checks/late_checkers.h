#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "integrity/checker.h"
#include "integrity/crc32c.h"

namespace farpage {

// Checkers whose checks end later than they began, and not in that order, as a device's may. They
// say what the bytes are when the check ends, unless they are told to say something else; and look
// after the promise that nobody writes there meanwhile. Any number of lanes, on one thread.
class LateCheckers final : public CheckerFactory {
 public:
  using Outcome = CheckEnd::Outcome;

  // For how many polls a check lasts; asked of each as it begins.
  std::function<uint32_t()> polls = [] { return 0; };
  // Whether a check stays under way, however often its checker is polled.
  std::function<bool(const PayloadCheck&)> is_held = [](const PayloadCheck&) { return false; };
  // Its result; nothing: as the bytes say.
  std::function<std::optional<Outcome>(const PayloadCheck&)> answer = [](const PayloadCheck&) {
    return std::nullopt;
  };
  size_t room = SIZE_MAX;  // checks under way at one time, of one checker

  size_t begun = 0;
  size_t looks = 0;  // polls of a checker where something is under way
  size_t under_way = 0;
  size_t given_up = 0;              // with their checker
  size_t disturbed = 0;             // checks whose bytes were written to meanwhile
  size_t shared = 0;                // checks that began where another one was under way
  std::vector<size_t> batches;      // how many each begin took
  std::vector<MemoryPlace> places;  // that each begun check's bytes lay in, by its checker

  void hold_all() {
    is_held = [](const PayloadCheck&) { return true; };
  }
  void hold_none() {
    is_held = [](const PayloadCheck&) { return false; };
  }

  Result<std::unique_ptr<Checker>> make(MemoryPlace place, size_t most) override {
    return std::make_unique<LateChecker>(*this, place, most);
  }

 private:
  struct Running {
    PayloadCheck check;
    uint32_t landed_crc = 0;
    uint32_t polls_left = 0;
  };

  class LateChecker final : public Checker {
   public:
    LateChecker(LateCheckers& owner, MemoryPlace place, size_t most)
        : owner_(owner), place_(place), most_(most) {}
    ~LateChecker() override {
      for (const Running& running : running_) end(running);
      owner_.given_up += running_.size();
    }

    size_t begin(std::span<const PayloadCheck> checks) override {
      size_t taken = 0;
      for (const PayloadCheck& check : checks) {
        if (running_.size() == std::min(most_, owner_.room)) break;
        for (const Running& other : running_) {
          const bool is_apart = check.data + check.bytes <= other.check.data ||
                                other.check.data + other.check.bytes <= check.data;
          owner_.shared += is_apart ? 0 : 1;
        }
        owner_.places.push_back(place_);
        running_.push_back({check, crc32c(0, check.data, check.bytes), owner_.polls()});
        ++taken;
      }
      owner_.begun += taken;
      owner_.under_way += taken;
      owner_.batches.push_back(taken);
      return taken;
    }

    // The last that has begun ends first.
    size_t poll(std::span<CheckEnd> ends) override {
      size_t count = 0;
      owner_.looks += running_.empty() ? 0 : 1;
      for (size_t at = running_.size(); at-- > 0 && count < ends.size();) {
        Running& running = running_[at];
        if (owner_.is_held(running.check) || running.polls_left-- > 0) continue;
        const uint32_t crc = end(running);
        const Outcome seen = crc == running.check.crc ? Outcome::kGood : Outcome::kBad;
        ends[count++] = {owner_.answer(running.check).value_or(seen), running.check.tag};
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
      }
      return count;
    }

   private:
    uint32_t end(const Running& running) {
      const uint32_t crc = crc32c(0, running.check.data, running.check.bytes);
      owner_.disturbed += crc == running.landed_crc ? 0 : 1;
      --owner_.under_way;
      return crc;
    }

    LateCheckers& owner_;
    const MemoryPlace place_;
    const size_t most_;
    std::vector<Running> running_;
  };
};

}  // namespace farpage
