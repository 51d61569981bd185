#include "integrity/copy_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <cstring>

#include "integrity/fold_constants.h"

#define FARPAGE_FOLD_TARGET __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

namespace farpage {
namespace {

using Vector = __m512i;

FARPAGE_FOLD_TARGET inline Vector load(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

FARPAGE_FOLD_TARGET inline void store(std::byte* to, Vector vector) {
  _mm512_storeu_si512(to, vector);
}

FARPAGE_FOLD_TARGET inline void stream(std::byte* to, Vector vector) {
  _mm512_stream_si512(reinterpret_cast<Vector*>(to), vector);
}

FARPAGE_FOLD_TARGET inline Vector with_state(Vector first, uint32_t state) {
  return _mm512_xor_si512(first,
                          _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
}

template <unsigned kDistanceBytes>
FARPAGE_FOLD_TARGET inline Vector multiplier() {
  constexpr auto kHalves = fold_over(kDistanceBytes);
  return _mm512_set4_epi64(kHalves[1], kHalves[0], kHalves[1], kHalves[0]);
}

FARPAGE_FOLD_TARGET inline Vector fold(Vector sum, Vector multiplier, Vector next) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, multiplier, 0x00),
                                   _mm512_clmulepi64_epi128(sum, multiplier, 0x11), next,
                                   kXorOfThree);
}

#include "integrity/fold_copy.inc"

}  // namespace

uint32_t fold_copy_avx512(uint32_t crc, void* destination, const void* source, size_t bytes,
                          Stores stores) {
  return fold_copy(crc, destination, source, bytes, stores);
}

}  // namespace farpage

#endif
