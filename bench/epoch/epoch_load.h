#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "bench/epoch/lone_member.h"
#include "bench/fetch/fetch_connection.h"

namespace farpage {

// What a client does over and over while epochs begin at its node. One thread.
class EpochLoad {
 public:
  // Since begin().
  struct Counts {
    uint64_t done = 0;     // answers, or pages that were ready
    uint64_t missed = 0;   // questions that the client could not ask, or pages that were not ready
    double seconds = 0;    // that it took
    double longest_s = 0;  // between two answers, or of a fetch
  };

  virtual ~EpochLoad() = default;
  virtual void begin() = 0;
  virtual Result<void> step() = 0;
  virtual Counts counts() const = 0;
};

// Questions of the node's one thread, each after the answer to the one before.
class QuestionLoad final : public EpochLoad {
 public:
  explicit QuestionLoad(LoneMember& member) : member_(member) {}
  void begin() override;
  Result<void> step() override;
  Counts counts() const override { return counts_; }

 private:
  LoneMember& member_;
  Counts counts_;
  uint64_t last_ns_ = 0;  // when the last answer came
};

// Fetches of pages that the node holds in all epochs, drawn at random.
class FetchLoad final : public EpochLoad {
 public:
  // `epochs`: all that there will be, with the present one.
  static Result<std::unique_ptr<FetchLoad>> open(LoneMember& member, uint64_t page_bytes,
                                                 std::vector<PageKey> keys,
                                                 const std::vector<Epoch>& epochs);
  void begin() override;
  Result<void> step() override;
  Counts counts() const override;

 private:
  explicit FetchLoad(std::vector<PageKey> keys) : keys_(std::move(keys)) {}
  Counts since_opened() const;

  const std::vector<PageKey> keys_;
  std::unique_ptr<FetchConnection> connection_;
  Counts before_;  // begin()
  double longest_s_ = 0;
};

}  // namespace farpage
