#include "tests/transport/cuda/fake/programs/environment.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tests/transport/cuda/fake/state.h"
#include "tests/transport/cuda/fake/streams.h"

namespace farpage::cuda {
namespace {

uint64_t number(const char* name, uint64_t if_unset) {
  const char* const text = std::getenv(name);
  return text == nullptr ? if_unset : std::strtoull(text, nullptr, 10);
}

// Into the file that FARPAGE_FAKE_REPORT names.
void report() {
  const char* const path = std::getenv("FARPAGE_FAKE_REPORT");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  const FakeCounts left = farpage_fake_cuda()->live();
  const char* last = "";
  const int broken_rules = farpage_fake_cuda()->broken_rules(&last);
  std::fprintf(file,
               "{\"contexts\": %d, \"modules\": %d, \"streams\": %d, \"events\": %d, "
               "\"device_ranges\": %d, \"host_ranges\": %d, \"operations\": %d, "
               "\"broken_rules\": %d, \"last_broken_rule\": \"%s\", "
               "\"copies_to_devices\": %llu, \"refused\": %llu}\n",
               left.contexts, left.modules, left.streams, left.events, left.device_ranges,
               left.host_ranges, left.operations, broken_rules, last,
               static_cast<unsigned long long>(state().copies_to_devices),
               static_cast<unsigned long long>(state().refused));
  std::fclose(file);
}

// At the end of the process, when whatever is still there has leaked. TSan looks later whether a
// thread was joined.
void end() {
  report();
  std::unique_lock lock(state().mutex);
  end_streams(lock);
}

}  // namespace

FakeSettings settings_from_environment() {
  std::atexit(end);
  FakeSettings settings;
  settings.seed = number("FARPAGE_FAKE_SEED", settings.seed);
  settings.delay_us = static_cast<uint32_t>(number("FARPAGE_FAKE_DELAY_US", settings.delay_us));
  settings.spoil_every = number("FARPAGE_FAKE_SPOIL_EVERY", settings.spoil_every);
  settings.refuse_every = number("FARPAGE_FAKE_REFUSE_EVERY", settings.refuse_every);
  return settings;
}

}  // namespace farpage::cuda
