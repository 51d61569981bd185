// Measures checking, scattering and bringing pages on the first GPU. docs/gpu.md says what the
// figures mean. Usage: farpage_gpu_pages [PART...]; without any, all parts.

#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "bench/gpu/pages.h"
#include "bench/gpu/parts.h"

namespace farpage::gpu_bench {
namespace {

constexpr uint32_t kAllPages = 65536;

struct Part {
  const char* name;
  std::function<void(const Gpu&)> run;
  bool in_all;
};

const Part kParts[] = {
    {"small",
     [](const Gpu& gpu) {
       check_crcs(gpu, true);
       check_scatter(gpu, true);
     },
     false},
    {"check",
     [](const Gpu& gpu) {
       check_crcs(gpu, false);
       check_scatter(gpu, false);
     },
     true},
    {"wait", time_waits, true},
    {"crc", [](const Gpu& gpu) { time_crcs(gpu, kAllPages); }, true},
    {"scatter", [](const Gpu& gpu) { time_scatter(gpu, kAllPages, 16); }, true},
    {"scatter_2", [](const Gpu& gpu) { time_scatter(gpu, kAllPages, 2); }, true},
    {"batch", time_small_batches, true},
    {"bounce", time_bounce, true},
    {"node_pool", time_node_pool, true},
};

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Gpu gpu;
  fmt::print("{}\n", gpu.description());
  int failed = 0;
  for (const Part& part : kParts) {
    bool wanted = argc < 2 && part.in_all;
    for (int i = 1; i < argc; ++i) wanted |= std::strcmp(argv[i], part.name) == 0;
    if (!wanted) continue;
    const double begin_us = now_us();
    try {
      part.run(gpu);
    } catch (const std::exception& error) {
      fmt::print("{} FAILED: {}\n", part.name, error.what());
      ++failed;
    }
    fmt::print("--     {} took {:.1f} s\n", part.name, (now_us() - begin_us) / 1e6);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace farpage::gpu_bench

int main(int argc, char** argv) {
  try {
    return farpage::gpu_bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
