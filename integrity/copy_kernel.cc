#include "integrity/copy_kernel.h"

#include <array>

namespace farpage {
namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports() asks XGETBV, too, whether the system keeps AVX's and AVX-512's
// registers.
std::array<CopyKernel, 4> find_kernels() {
  const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
  const bool folds_wide = folds && __builtin_cpu_supports("vpclmulqdq");
  const bool avx512 = folds_wide && __builtin_cpu_supports("avx512f");
  const bool avx2 = folds_wide && __builtin_cpu_supports("avx2");
  return {{{"avx512", "AVX-512F, VPCLMULQDQ", avx512, true, fold_copy_avx512},
           {"avx2", "AVX2, VPCLMULQDQ", avx2, true, fold_copy_avx2},
           {"sse", "SSE4.2, PCLMULQDQ", folds, false, fold_copy_sse},
           {"isa-l", "nothing", true, false, copy_then_check}}};
}
#else
std::array<CopyKernel, 1> find_kernels() {
  return {{{"isa-l", "nothing", true, false, copy_then_check}}};
}
#endif

}  // namespace

std::span<const CopyKernel> copy_kernels() {
  static const auto kernels = find_kernels();
  return kernels;
}

}  // namespace farpage
