#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farpage::prefetch {

// A page, numbered from 0 in the order in which pages are first named, so that what is known of
// pages lies in arrays.
using PageNumber = uint32_t;

// Values that a trace may give an access beside its page, a column each.
// docs/formats/access-trace.md
enum class Signal : uint8_t { kMass, kScore, kSimilarity, kCategory, kEntropy, kMargin, kMark };
inline constexpr std::array<std::string_view, 7> kSignalNames = {
    "mass", "score", "similarity", "category", "entropy", "margin", "mark"};
using Signals = std::bitset<kSignalNames.size()>;  // by Signal

// The engine's note on the token of a step: that it begins a step of reasoning, and perhaps the
// purpose of that step.
enum class Mark : uint8_t { kNone, kBegins, kExplores, kVerifies, kConcludes };
inline constexpr uint32_t kMarks = 5;

// The KV heads of a model.
struct HeadLayout {
  uint32_t layers = 1;
  uint32_t heads = 1;  // in each layer

  uint32_t all() const { return layers * heads; }
};

constexpr size_t index_of(Signal signal) {
  return static_cast<size_t>(signal);
}

// A page is demanded. Of signals that the trace does not tell, 0.
struct Access {
  uint64_t number = 0;  // of this access, from 0: where Future has its place
  uint64_t step = 0;    // never less than that of the access before
  PageNumber page = 0;
  uint32_t head = 0;      // whose page it is, counted through all layers (HeadLayout)
  float mass = 0;         // of the head's attention in this step, 0 to 1
  float score = 0;        // how the engine ranks the page, by what it measures itself
  float similarity = 0;   // the cosine between the step's query and the one before, -1 to 1
  uint32_t category = 0;  // of the request, as its recorder numbers them
  // Of the token that the step writes, so the same for all accesses of a step.
  float entropy = 0;  // nats, of the distribution that it was drawn from
  float margin = 0;   // between the logits of the two likeliest tokens
  Mark mark = Mark::kNone;
};

}  // namespace farpage::prefetch
