#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/transport/cuda/fake/fake_control.h"
#include "tests/transport/cuda/fake/later_types.h"
#include "tests/transport/cuda/fake/results.h"

namespace farpage {

// A test over the fake, which it loads through the seam. At the end nothing may live in it, and no
// rule may be broken but those that the test has named.
class FakeDriverTest : public testing::Test {
 protected:
  static constexpr size_t kGranule = 2 * 1024 * 1024;  // of memory that is mapped

  FakeDriverTest();
  ~FakeDriverTest() override;

  // A driver anew, with the first device's context current.
  void start(const cuda::FakeSettings& settings);
  // A call that breaks a rule: with this result, and a sentence that has these words.
  void expect_broken(int result, int expected, const std::string& words);
  // What is left behind is not looked at: the context has a sticky error.
  void leave_everything() { look_for_leaks_ = false; }

  cuda::Stream make_stream();
  uint64_t allocate(size_t bytes);
  std::byte* pin(size_t bytes);
  // Addresses without memory; free_addresses() is the test's.
  uint64_t reserve(size_t bytes);
  // A granule of its own there; only the mapping keeps its memory.
  void map(uint64_t address);
  void destroy(cuda::Stream stream);

  cuda::Driver driver_;
  cuda::LaterDriver later_;
  const cuda::FakeControl* fake_ = nullptr;
  cuda::Context context_ = nullptr;

 private:
  void expect_no_other_broken_rule();
  int broken_rules_ = 0;
  bool look_for_leaks_ = true;
};

}  // namespace farpage
