#pragma once

#include <string>

#include "lab/decode/decode_generator.h"

namespace farpage::decode {

inline constexpr const char* kTruthHeader = "page,label,segment,phase\n";
// The whole file: what the accessed pages are. docs/formats/decode-truth.md
std::string truth_csv(const DecodeGenerator& generator);

}  // namespace farpage::decode
