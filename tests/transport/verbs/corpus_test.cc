// Replayed by every run of the tests.
#include "tests/support/corpus.h"

namespace farpage {
namespace {

TEST(VerbsWireCorpus, EveryKeptInputIsHarmless) {
  expect_harmless(FARPAGE_CORPUS);
}

}  // namespace
}  // namespace farpage
