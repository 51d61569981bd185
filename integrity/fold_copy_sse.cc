#include "integrity/copy_kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <cstring>

#include "integrity/fold_constants.h"

#define FARPAGE_FOLD_TARGET __attribute__((target("pclmul,sse4.2")))

namespace farpage {
namespace {

using Vector = __m128i;

FARPAGE_FOLD_TARGET inline Vector load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const Vector*>(from));
}

FARPAGE_FOLD_TARGET inline void store(std::byte* to, Vector vector) {
  _mm_storeu_si128(reinterpret_cast<Vector*>(to), vector);
}

FARPAGE_FOLD_TARGET inline void stream(std::byte* to, Vector vector) {
  _mm_stream_si128(reinterpret_cast<Vector*>(to), vector);
}

FARPAGE_FOLD_TARGET inline Vector with_state(Vector first, uint32_t state) {
  return _mm_xor_si128(first, _mm_cvtsi32_si128(static_cast<int>(state)));
}

template <unsigned kDistanceBytes>
FARPAGE_FOLD_TARGET inline Vector multiplier() {
  constexpr auto kHalves = fold_over(kDistanceBytes);
  return _mm_set_epi64x(kHalves[1], kHalves[0]);
}

FARPAGE_FOLD_TARGET inline Vector fold(Vector sum, Vector multiplier, Vector next) {
  const Vector product = _mm_xor_si128(_mm_clmulepi64_si128(sum, multiplier, 0x00),
                                       _mm_clmulepi64_si128(sum, multiplier, 0x11));
  return _mm_xor_si128(product, next);
}

#include "integrity/fold_copy.inc"

}  // namespace

uint32_t fold_copy_sse(uint32_t crc, void* destination, const void* source, size_t bytes,
                       Stores stores) {
  return fold_copy(crc, destination, source, bytes, stores);
}

}  // namespace farpage

#endif
