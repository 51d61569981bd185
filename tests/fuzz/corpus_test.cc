// The kept inputs of one fuzz target, with which this is linked; replayed by every run of the
// tests.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

namespace farpage {
namespace {

TEST(FARPAGE_CORPUS_NAME, EveryKeptInputIsHarmless) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FARPAGE_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    SCOPED_TRACE(entry.path().string());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
              0);
    ++inputs;
  }
  EXPECT_GE(inputs, 10);
}

}  // namespace
}  // namespace farpage
