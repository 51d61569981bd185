// Two buckets of any bytes, as a torn or hostile index gives them: what they lead to is in range,
// of the key's fingerprint, and all that there is of it.
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "pagetable/index_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  struct Input {
    PageKey key;
    uint64_t slots;
    uint64_t buckets;
    uint64_t made;  // bits: entries that are made to fit the key
  } input;
  std::array<Bucket, 2> buckets;
  if (bytes < sizeof input + sizeof buckets) return 0;
  std::memcpy(&input, data, sizeof input);
  std::memcpy(buckets.data(), data + sizeof input, sizeof buckets);
  for (uint32_t i = 0; i < 2 * kBucketEntries; ++i) {
    IndexEntry& entry = buckets[i / kBucketEntries].entries[i % kBucketEntries];
    if ((input.made >> i & 1) != 0) entry = make_entry(input.key, entry >> 26);
  }
  const Candidates found = find_candidates(buckets, input.key, input.slots);
  uint32_t fitting = 0;
  for (const Bucket& bucket : buckets) {
    for (const IndexEntry entry : bucket.entries) {
      const uint64_t slot_field = entry & 0xFF'FFFF'FFFF;
      const bool fits = slot_field != 0 && slot_field - 1 < input.slots &&
                        entry >> 40 == (input.key.high & 0xFF'FFFF);
      fitting += fits ? 1 : 0;
    }
  }
  FARPAGE_CHECK(found.count == std::min<uint32_t>(fitting, 4));
  for (uint32_t i = 0; i < found.count; ++i) {
    FARPAGE_CHECK(entry_slot(found.entries[i]) < input.slots);
    FARPAGE_CHECK(entry_may_be(found.entries[i], input.key));
  }
  if (input.buckets < 2) return 0;
  const auto places = key_buckets(input.key, input.buckets);
  FARPAGE_CHECK(places[0] != places[1]);
  FARPAGE_CHECK(places[0] < input.buckets && places[1] < input.buckets);
  return 0;
}
