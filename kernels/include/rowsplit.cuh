// Row-split weights (row_split_k128_v1): planes, and exact decoding of codes.
//
// A weight matrix (n, k) is three planes, each row-major over rows, then groups of a row, then bytes of a group:
//   codes   32 bytes a group
//   high    Q5 8, Q6 16 bytes a group; Q4 and T2 have none
//   scales  one FP16 a group
// value = scale * code. Codes are two's complement: T2 2 bits (code 10 decodes as -2), Q4 4, Q5 5, Q6 6.
//
// Decoding works on eight consecutive codes of a Q4/Q5/Q6 group: `low` is their 32-bit word of the code plane, `high`
// their bits of the high plane from bit 0 up (Q5 eight bits, Q6 sixteen; ignored for Q4; bits above are ignored).
// A code enters the low mantissa bits of a constant (BF16 128, FP32 2^23) with its sign bit flipped, and one subtraction
// leaves the exact integer.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "words.cuh"

struct Q4 {
  static constexpr int kBits = 4, kGroup = 64, kCodeBytes = 32, kHighBytes = 0;
};
struct Q5 {
  static constexpr int kBits = 5, kGroup = 64, kCodeBytes = 32, kHighBytes = 8;
};
struct Q6 {
  static constexpr int kBits = 6, kGroup = 64, kCodeBytes = 32, kHighBytes = 16;
};
struct T2 {
  static constexpr int kBits = 2, kGroup = 128, kCodeBytes = 32, kHighBytes = 0;
};

// One weight matrix, or the rows of one from `codes` on.
struct RowSplit {
  const unsigned char* codes;
  const unsigned char* high;  // null where the format has none
  const __half* scales;
};

// The same matrix from row `row` on; `groups` per row.
template <typename Format>
__device__ __forceinline__ RowSplit rows_from(RowSplit w, long long row, int groups) {
  const long long group = row * groups;
  return {w.codes + group * Format::kCodeBytes, Format::kHighBytes == 0 ? nullptr : w.high + group * Format::kHighBytes,
          w.scales + group};
}

// Bit 4 (Q5) or bits 4-5 (Q6) of eight codes in place in their bytes, sign bit flipped: `even` codes 0 2 4 6, `odd` codes
// 1 3 5 7.
template <typename Format>
__device__ __forceinline__ void spread_high(unsigned high, unsigned& even, unsigned& odd) {
  if constexpr (Format::kBits == 5) {
    // The product moves bit 2i to bit 8i + 4; what else it adds up never carries into those four bits.
    even = (~high & 0x55u) * 0x00410410u & 0x10101010u;
    odd = (~high & 0xAAu) * 0x00208208u & 0x10101010u;
  } else if constexpr (Format::kBits == 6) {
    unsigned x = byte_permute(high, 0, 0x4140u);
    x = (x | x << 4) & 0x0F0F0F0Fu;
    even = (x << 4 & 0x30303030u) ^ 0x20202020u;
    odd = (x << 2 & 0x30303030u) ^ 0x20202020u;
  } else {
    static_assert(Format::kBits == 4, "row-split decoding by eight codes covers Q4, Q5 and Q6");
    even = odd = 0;
  }
}

// code + 2^(bits-1) of eight codes, one a byte: `even` codes 0 2 4 6, `odd` codes 1 3 5 7.
template <typename Format>
__device__ __forceinline__ void biased_bytes(unsigned low, unsigned high, unsigned& even, unsigned& odd) {
  if constexpr (Format::kBits == 4) {
    even = (low & 0x0F0F0F0Fu) ^ 0x08080808u;
    odd = (low >> 4 & 0x0F0F0F0Fu) ^ 0x08080808u;
  } else {
    unsigned high_even, high_odd;
    spread_high<Format>(high, high_even, high_odd);
    even = (low & 0x0F0F0F0Fu) | high_even;
    odd = (low >> 4 & 0x0F0F0F0Fu) | high_odd;
  }
}

// BF16 pair of exact codes from a pair of 128 + 2^(bits-1) + code.
template <typename Format>
__device__ __forceinline__ unsigned unbias_pair(unsigned pair) {
  constexpr unsigned kBias = (0x4300u | 1u << (Format::kBits - 1)) * 0x10001u;
  return bf16x2_sub(pair, kBias);
}

// Eight codes as BF16 pairs (0,4) (1,5) (2,6) (3,7): the cheapest order, one logic operation a pair.
template <typename Format>
__device__ __forceinline__ void decode8_strided(unsigned low, unsigned high, unsigned (&pairs)[4]) {
  if constexpr (Format::kBits == 4) {
    const unsigned base = in_register(0x43084308u);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = unbias_pair<Format>((low >> 4 * i & 0x000F000Fu) ^ base);
  } else {
    const unsigned base = in_register(0x43434343u);
    unsigned even, odd;
    biased_bytes<Format>(low, high, even, odd);
    pairs[0] = unbias_pair<Format>(byte_permute(even, base, 0x4240u));
    pairs[1] = unbias_pair<Format>(byte_permute(odd, base, 0x4240u));
    pairs[2] = unbias_pair<Format>(byte_permute(even, base, 0x4341u));
    pairs[3] = unbias_pair<Format>(byte_permute(odd, base, 0x4341u));
  }
}

// Eight codes as BF16 pairs (0,1) (2,3) (4,5) (6,7).
template <typename Format>
__device__ __forceinline__ void decode8_pairs(unsigned low, unsigned high, unsigned (&pairs)[4]) {
  if constexpr (Format::kBits == 4) {
    const unsigned base = in_register(0x43084308u);
#pragma unroll
    for (int i = 0; i < 4; ++i)  // bytes 0 and 1 codes 2i, 2i + 1; bytes 2 and 3 the same four bits further on
      pairs[i] = unbias_pair<Format>((byte_permute(low, low >> 4, 0x4400u + 0x1111u * i) & 0x000F000Fu) ^ base);
  } else {
    const unsigned base = in_register(0x43434343u);
    unsigned even, odd;
    biased_bytes<Format>(low, high, even, odd);
    const unsigned first = byte_permute(even, odd, 0x5140u), second = byte_permute(even, odd, 0x7362u);
    pairs[0] = unbias_pair<Format>(byte_permute(first, base, 0x4140u));
    pairs[1] = unbias_pair<Format>(byte_permute(first, base, 0x4342u));
    pairs[2] = unbias_pair<Format>(byte_permute(second, base, 0x4140u));
    pairs[3] = unbias_pair<Format>(byte_permute(second, base, 0x4342u));
  }
}

// Activation pairs (0,1) (2,3) (4,5) (6,7) in the order of decode8_strided.
__device__ __forceinline__ void stride_pairs(const unsigned (&natural)[4], unsigned (&pairs)[4]) {
  pairs[0] = byte_permute(natural[0], natural[2], 0x5410u);
  pairs[1] = byte_permute(natural[0], natural[2], 0x7632u);
  pairs[2] = byte_permute(natural[1], natural[3], 0x5410u);
  pairs[3] = byte_permute(natural[1], natural[3], 0x7632u);
}

// Eight codes as FP32.
template <typename Format>
__device__ __forceinline__ void decode8_float(unsigned low, unsigned high, float (&values)[8]) {
  constexpr float kBias = 8388608.0f + (1 << (Format::kBits - 1));
  unsigned even, odd;
  biased_bytes<Format>(low, high, even, odd);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(byte_permute(even, 0x4B000000u, 0x7440u + i)) - kBias;
    values[2 * i + 1] = __uint_as_float(byte_permute(odd, 0x4B000000u, 0x7440u + i)) - kBias;
  }
}

// Eight codes as int8, four a word, in order.
template <typename Format>
__device__ __forceinline__ void decode8_int8(unsigned low, unsigned high, unsigned (&words)[2]) {
  constexpr unsigned kSign = 0x01010101u << (Format::kBits - 1);
  unsigned even, odd;
  biased_bytes<Format>(low, high, even, odd);
  // byte-wise subtraction of the bias: set the top bit first so that no byte borrows from its neighbour
  even = ((even | 0x80808080u) - kSign) ^ 0x80808080u;
  odd = ((odd | 0x80808080u) - kSign) ^ 0x80808080u;
  words[0] = byte_permute(even, odd, 0x5140u);
  words[1] = byte_permute(even, odd, 0x7362u);
}
