#pragma once

#include <cstdint>

#include "transport/cuda/kernels/crc_constants.h"

// Code of both sides: nvcc compiles it for the GPU, and any compiler for the CPU, where a test runs
// it with Word = 32 lanes in step.
#if defined(__CUDACC__)
#define FARPAGE_BOTH __host__ __device__ __forceinline__
#define FARPAGE_UNROLL _Pragma("unroll")
#else
#define FARPAGE_BOTH inline
#define FARPAGE_UNROLL
#endif

namespace farpage::cuda {

// CRC-32C of a page by the warps that share it, without a table in memory.
//
// The page is rows of words, one column a thread; y = x^(32 * columns) leads from a row to the
// next. P divides M(x) = x^63 + x^46 + x^45 + x^41 + x^40 + x^35 + x^28 + x^27 + x^2 + 1, so it
// divides M(x)^(2^n) = M(x^(2^n)), and M(y) with it. So a row may be dropped if it is added to
// those 17, 18, 22, ... behind it: nine exclusive-ors a word, no shift and no multiplication. The
// last kWindow rows remain, which Horner's rule in y turns into one word a column.
inline constexpr int kWindow = 64;
inline constexpr int kGroup =
    16;  // rows that do not depend on each other: fewer than the first tap
inline constexpr int kGroups = kWindow / kGroup;

// Adds the rows before to rows `kAt * kGroup` and on of the window. kLast: the window stays, so
// only rows of the window before count.
template <int kAt, bool kLast, class Word>
FARPAGE_BOTH void fold_group(Word (&window)[kWindow], const Word (&rows)[kGroup]) {
  constexpr int kTaps[] = {17, 18, 22, 23, 28, 35, 36, 61, 63};
  FARPAGE_UNROLL
  for (int i = 0; i < kGroup; ++i) {
    const int at = kAt * kGroup + i;
    Word sum = rows[i];
    FARPAGE_UNROLL
    for (int tap = 0; tap < 9; ++tap) {
      if (!kLast || kTaps[tap] > at) sum = sum ^ window[(at - kTaps[tap]) & (kWindow - 1)];
    }
    window[at] = sum;
  }
}

// value * y mod P; `table` holds this lane's entries.
template <class Warp>
FARPAGE_BOTH typename Warp::Word next_row(const typename Warp::Word (&table)[kDigits],
                                          typename Warp::Word value) {
  typename Warp::Word product = Warp::shuffle(table[0], value);
  FARPAGE_UNROLL
  for (int digit = 1; digit < kDigits; ++digit) {
    product = product ^ Warp::shuffle(table[digit], value >> (kDigitBits * digit));
  }
  return product;
}

// The sum of row * y^(rows behind it) over a column's `rows` rows, mod P. `source.load(first,
// words)` gives kGroup rows from `first` on, zeros where it is negative; one group is on its way
// while another is folded.
template <class Warp, class Source>
FARPAGE_BOTH typename Warp::Word column_remainder(const Source& source, int rows,
                                                  const typename Warp::Word (&table)[kDigits]) {
  using Word = typename Warp::Word;
  Word window[kWindow];
  FARPAGE_UNROLL
  for (Word& word : window) word = Word{};
  const int windows = rows <= kWindow ? 1 : (rows + kWindow - 1) / kWindow;
  int row = rows - windows * kWindow;
  Word ahead[kGroup];
  source.load(row, ahead);
#define FARPAGE_FOLD(at, last)                                                        \
  {                                                                                   \
    Word now[kGroup];                                                                 \
    FARPAGE_UNROLL                                                                    \
    for (int i = 0; i < kGroup; ++i) now[i] = ahead[i];                               \
    if (!(last) || (at) + 1 < kGroups) source.load(row + ((at) + 1) * kGroup, ahead); \
    fold_group<at, last>(window, now);                                                \
  }
  for (int left = windows; left > 1; --left) {
    FARPAGE_FOLD(0, false)
    FARPAGE_FOLD(1, false)
    FARPAGE_FOLD(2, false)
    FARPAGE_FOLD(3, false)
    row += kWindow;
  }
  FARPAGE_FOLD(0, true)
  FARPAGE_FOLD(1, true)
  FARPAGE_FOLD(2, true)
  FARPAGE_FOLD(3, true)
#undef FARPAGE_FOLD
  Word sum = window[0];
  FARPAGE_UNROLL
  for (int i = 1; i < kWindow; ++i) sum = next_row<Warp>(table, sum) ^ window[i];
  return sum;
}

// left * right mod P, lane by lane.
template <class Word>
FARPAGE_BOTH Word multiply_lanes(Word left, Word right) {
  Word product{};
  FARPAGE_UNROLL
  for (int bit = 31; bit >= 0; --bit) {
    product = product ^ (right & (Word{} - (left >> bit & 1)));
    right = right >> 1 ^ ((Word{} - (right & 1)) & kReflectedCastagnoli);
  }
  return product;
}

// The page's rows, as one of `warps` warps sees them. The page ends with the last row; the first
// one begins with zeros.
struct Rows {
  int padded_bytes;  // whole words
  int row_bytes;
  int count;

  FARPAGE_BOTH Rows(int bytes, int warps)
      : padded_bytes((bytes + kWordBytes - 1) / kWordBytes * kWordBytes),
        row_bytes(kLanes * kWordBytes * warps),
        count((padded_bytes + row_bytes - 1) / row_bytes) {}

  // Of the row's first word, from the page's begin; negative for zeros before the page.
  FARPAGE_BOTH int offset(int row) const { return padded_bytes - (count - row) * row_bytes; }
};

// The bits of the word at `offset` that belong to the page: all but those behind its end.
FARPAGE_BOTH uint32_t page_bits(int offset, int bytes) {
  const int behind = offset + kWordBytes - bytes;
  return behind > 0 ? 0xFFFFFFFFu >> 8 * behind : 0xFFFFFFFFu;
}

// What CRC-32C begins with, for the word at `offset`: all ones for the page's first.
FARPAGE_BOTH uint32_t initial_bits(int offset) {
  return offset == 0 ? 0xFFFFFFFFu : 0u;
}

// A warp's column of a page. `warp.inner(offset)` reads the warp's words of the row whose first
// word of its own lies at `offset`; `warp.edge(offset)` gives them by edge_word().
template <class Warp>
struct Column {
  using Word = typename Warp::Word;
  const Warp& warp;
  Rows rows;
  int bytes;
  int first_column;  // of the warp

  FARPAGE_BOTH void load(int first, Word (&words)[kGroup]) const {
    const int begin = rows.offset(first);
    const int mine = begin + first_column * kWordBytes;
    if (begin > 0 && begin + kGroup * rows.row_bytes <= bytes) {
      // Nothing here touches what is on its way.
      FARPAGE_UNROLL
      for (int i = 0; i < kGroup; ++i) words[i] = warp.inner(mine + i * rows.row_bytes);
    } else {
      FARPAGE_UNROLL
      for (int i = 0; i < kGroup; ++i) words[i] = warp.edge(mine + i * rows.row_bytes, bytes);
    }
  }
};

// A word that may lie before the page, or end behind it.
template <class Read>
FARPAGE_BOTH uint32_t edge_word(const Read& read, int offset, int bytes) {
  return offset < 0 ? 0u : (read(offset) & page_bits(offset, bytes)) ^ initial_bits(offset);
}

// The shares of a warp's lanes in the register of a page's CRC; `factor` is each lane's
// CrcConstants::column.
template <class Warp>
FARPAGE_BOTH typename Warp::Word crc_shares(const Warp& warp, int bytes, int warps,
                                            int first_column,
                                            const typename Warp::Word (&table)[kDigits],
                                            const typename Warp::Word& factor) {
  const Column<Warp> column{warp, Rows(bytes, warps), bytes, first_column};
  return multiply_lanes(column_remainder<Warp>(column, column.rows.count, table), factor);
}

// The CRC, from the exclusive-or of all lanes' shares.
FARPAGE_BOTH uint32_t finish_crc(uint32_t shares, uint32_t bytes, const CrcConstants& constants) {
  const int padding = static_cast<int>(-bytes & (kWordBytes - 1));
  if (padding != 0) shares = multiply_lanes(shares, constants.shorten[padding]);
  return ~shares;
}

}  // namespace farpage::cuda
