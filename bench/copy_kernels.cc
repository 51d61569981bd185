// Measures copying, alone and checked, with each kernel of integrity/copy_kernel.h. Sources are
// drawn at random out of 2 GiB, or all lie in the cache; destinations are used in turn.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/memory/mapping.h"
#include "base/units.h"
#include "integrity/copy_kernel.h"

namespace farpage {
namespace {

struct Case {
  const char* name;
  size_t page_bytes;
  size_t source_bytes;
  size_t destination_bytes;
};

constexpr Case kCases[] = {
    {"64KiB_batch_1024", 64 * kKiB, 2 * kGiB, 64 * kMiB},
    {"64KiB_batch_16", 64 * kKiB, 2 * kGiB, kMiB},
    {"64KiB_in_cache", 64 * kKiB, 256 * kKiB, 64 * kKiB},
    {"4KiB_batch_16384", 4 * kKiB, 2 * kGiB, 64 * kMiB},
    {"4KiB_in_cache", 4 * kKiB, 16 * kKiB, 4 * kKiB},
};

using Copy = uint32_t (*)(uint32_t crc, void* destination, const void* source, size_t bytes,
                          Stores stores);

uint32_t copy_alone(uint32_t crc, void* destination, const void* source, size_t bytes, Stores) {
  std::memcpy(destination, source, bytes);
  return crc;
}

Mapping written_memory(size_t bytes) {
  Mapping memory = std::move(Mapping::anonymous(bytes).value());
  std::fill_n(memory.data(), bytes, std::byte{1});
  return memory;
}

// The largest is made once: it takes longer to write than a case to run.
const std::byte* source_memory() {
  static const Mapping memory = written_memory(2 * kGiB);
  return memory.data();
}

void run(benchmark::State& state, const Case& now, Copy copy, Stores stores) {
  const std::byte* const source = source_memory();
  const Mapping destination = written_memory(now.destination_bytes);
  std::mt19937_64 random(1);
  std::vector<const std::byte*> pages(now.source_bytes / now.page_bytes);
  for (const std::byte*& page : pages) {
    page = source + random() % (now.source_bytes / now.page_bytes) * now.page_bytes;
  }
  const size_t places = now.destination_bytes / now.page_bytes;
  size_t next = 0;
  uint32_t crc = 0;
  for (auto _ : state) {
    crc ^= copy(0, destination.data() + next % places * now.page_bytes, pages[next % pages.size()],
                now.page_bytes, stores);
    ++next;
  }
  benchmark::DoNotOptimize(crc);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * now.page_bytes));
}

void add(const Case& now, const std::string& way, Copy copy, Stores stores = Stores::kKept) {
  benchmark::RegisterBenchmark(
      (now.name + ("/" + way)).c_str(),
      [&now, copy, stores](benchmark::State& state) { run(state, now, copy, stores); });
}

void add_all() {
  for (const Case& now : kCases) {
    add(now, "memcpy", copy_alone);
    for (const CopyKernel& kernel : copy_kernels()) {
      if (!kernel.available) continue;
      add(now, kernel.name, kernel.copy);
      if (kernel.copy != copy_then_check) {
        add(now, std::string(kernel.name) + "_streamed", kernel.copy, Stores::kStreamed);
      }
    }
  }
}

}  // namespace
}  // namespace farpage

int main(int argc, char** argv) {
  farpage::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
