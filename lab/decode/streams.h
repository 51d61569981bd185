#pragma once

#include "base/random.h"
#include "lab/decode/decode_options.h"

namespace farpage::decode {

// Draws from one of them do not change those from the others: a trace has the same accesses
// whatever its features tell.
enum class Stream : uint64_t { kScript, kSelection, kFeatures, kMarks };

inline Random stream_of(const DecodeOptions& options, Stream stream) {
  return Random(Random::mix(options.seed * 4 + static_cast<uint64_t>(stream)));
}

}  // namespace farpage::decode
