// KV codings of the INT8 family: row sizes, key codes expanded to int8, value codes decoded to FP16.
//
// A row is one token of one KV head, 256 dims. Pages hold 64 tokens; offset of a row in a plane with L elements a
// row: L * (token in page + 64 * (head + 4 * page)). Keys carry 4 FP16 scales a row (64 dims each), values 4 (int8)
// or 8 (4-bit, 32 dims each).
//
// Every packed key code is a 4-bit index into a 16-entry table of int8 codes, so one lookup serves all codings:
//   rk4v4      sign << 3 | magnitude into the Lloyd code book
//   rk4v4_e8   two's complement
//   rk2v4_e8   root coordinate x 4 + axis + 5 (0..10), into the rounded products of the block's radius
#pragma once
#include <cuda_fp16.h>

namespace kv {

enum Coding { int8, rk8v4, rk4v4, rk4v4_e8, rk2v4_e8 };

constexpr int page_tokens = 64;
constexpr int heads = 4;
constexpr int dims = 256;

constexpr int key_bytes(Coding c) { return c <= rk8v4 ? 256 : c == rk2v4_e8 ? 64 : 128; }
constexpr int value_bytes(Coding c) { return c == int8 ? 256 : 128; }
constexpr int value_scales(Coding c) { return c == int8 ? 4 : 8; }
constexpr bool packed_keys(Coding c) { return key_bytes(c) < 256; }

// Rows before the first row of `page` and `head`.
__device__ __forceinline__ long long page_row(int page, int head) {
  return (static_cast<long long>(page) * heads + head) * page_tokens;
}

struct RootTable {
  unsigned word[256];
};

// One word a root: nibble d holds the coordinate of dim d, times 4, plus 5.
constexpr RootTable make_roots() {
  RootTable table = {};
  int r = 0;
  for (int i = 0; i < 8; ++i) {
    for (int j = i + 1; j < 8; ++j) {
      for (int signs = 0; signs < 4; ++signs) {
        unsigned word = 0x55555555u;
        word += (signs & 2) != 0 ? 4u << (4 * i) : -(4u << (4 * i));
        word += (signs & 1) != 0 ? 4u << (4 * j) : -(4u << (4 * j));
        table.word[r++] = word;
      }
    }
  }
  for (int bits = 0; bits < 128; ++bits) {
    unsigned word = 0;
    int minus = 0;
    for (int d = 0; d < 7; ++d) {
      const bool plus = (bits >> d & 1) != 0;
      minus += plus ? 0 : 1;
      word |= (plus ? 7u : 3u) << (4 * d);
    }
    table.word[r++] = word | (minus % 2 == 0 ? 7u : 3u) << 28;
  }
  for (; r < 256; ++r) table.word[r] = 0x55555555u;
  return table;
}

struct alignas(16) RadiusTable {
  unsigned word[16][4];
};

// Entry v of radius k: rint((v - 5) * 2^((k - 11) / 3)), the factor to 4 decimals; radius 0 is all zeros.
constexpr RadiusTable make_radii() {
  constexpr int factor[16] = {0,    992,  1250, 1575,  1984,  2500,  3150,  3969,
                                5000, 6300, 7937, 10000, 12599, 15874, 20000, 25198};
  RadiusTable table = {};
  for (int k = 0; k < 16; ++k) {
    for (int v = 0; v <= 10; ++v) {
      const int magnitude = (v < 5 ? 5 - v : v - 5) * factor[k];
      int code = magnitude / 10000;
      const int rest = magnitude % 10000;
      if (rest > 5000 || (rest == 5000 && code % 2 != 0)) ++code;
      const unsigned byte = static_cast<unsigned>(v < 5 ? -code : code) & 0xFFu;
      table.word[k][v / 4] |= byte << (8 * (v % 4));
    }
  }
  return table;
}

__device__ const RootTable roots = make_roots();
__device__ const RadiusTable radii = make_radii();

// The four int8 codes that the low four nibbles of `nibbles` index in the 16 bytes of `table`.
__device__ __forceinline__ unsigned lookup4(unsigned nibbles, uint4 table) {
  const unsigned select = nibbles & 0x7777u;
  const unsigned low = __byte_perm(table.x, table.y, select);
  const unsigned high = __byte_perm(table.z, table.w, select);
  const unsigned take = __byte_perm(0xFF00u, 0u, nibbles >> 3 & 0x1111u);
  return (low & ~take) | (high & take);
}

template <Coding C>
__device__ __forceinline__ uint4 nibble_codes() {
  static_assert(C == rk4v4 || C == rk4v4_e8, "only 4-bit key codings have one table for all rows");
  if constexpr (C == rk4v4) {
    return make_uint4(0x2C1F1206u, 0x7F604B3Au, 0xD4E1EEFAu, 0x81A0B5C6u);
  } else {
    return make_uint4(0x03020100u, 0x07060504u, 0xFBFAF9F8u, 0xFFFEFDFCu);
  }
}

// Eight int8 codes of one rk2v4_e8 block: root byte low, radius and axis byte high. Invalid roots decode to zeros.
__device__ __forceinline__ uint2 e8_block(unsigned code) {
  const unsigned root = code & 0xFFu;
  const unsigned radius = root < 240u ? code >> 12 & 0xFu : 0u;
  const unsigned axis = 1u << (4 * (code >> 9 & 7u));
  unsigned nibbles = roots.word[root];
  nibbles = (code & 0x100u) != 0 ? nibbles - axis : nibbles + axis;
  const uint4 table = *reinterpret_cast<const uint4*>(radii.word[radius]);
  return make_uint2(lookup4(nibbles, table), lookup4(nibbles >> 16, table));
}

// Storage of 16 consecutive key codes of a row: the unit in which keys are loaded and expanded.
template <Coding C>
struct KeyUnit {
  using type = uint2;
};
template <>
struct KeyUnit<int8> {
  using type = uint4;
};
template <>
struct KeyUnit<rk8v4> {
  using type = uint4;
};
template <>
struct KeyUnit<rk2v4_e8> {
  using type = unsigned;
};

// The 16 int8 codes of one unit, in dim order.
template <Coding C>
__device__ __forceinline__ uint4 expand_keys(typename KeyUnit<C>::type unit) {
  if constexpr (!packed_keys(C)) {
    return unit;
  } else if constexpr (C == rk2v4_e8) {
    const uint2 low = e8_block(unit & 0xFFFFu);
    const uint2 high = e8_block(unit >> 16);
    return make_uint4(low.x, low.y, high.x, high.y);
  } else {
    const uint4 table = nibble_codes<C>();
    return make_uint4(lookup4(unit.x, table), lookup4(unit.x >> 16, table), lookup4(unit.y, table),
                          lookup4(unit.y >> 16, table));
  }
}

__device__ __forceinline__ __half2 bits_half2(unsigned bits) {
  __half2_raw raw;
  raw.x = static_cast<unsigned short>(bits);
  raw.y = static_cast<unsigned short>(bits >> 16);
  return __half2(raw);
}

__device__ __forceinline__ unsigned half2_bits(__half2 value) {
  const __half2_raw raw = value;
  return static_cast<unsigned>(raw.x) | static_cast<unsigned>(raw.y) << 16;
}

constexpr unsigned byte_bias = 0x64806480u;    // 1024 + 128, twice
constexpr unsigned nibble_bias = 0x64086408u;  // 1024 + 8, twice

// 0x64 as the upper byte of a half makes its lower byte an integer over 1024: subtracting the bias is exact, so the
// product with the scale is the only rounding.
__device__ __forceinline__ unsigned scaled(unsigned biased, unsigned bias, __half2 scale) {
  return half2_bits(__hmul2(__hsub2(bits_half2(biased), bits_half2(bias)), scale));
}

// Eight int8 codes (two words) times `scale`, as eight FP16 in dim order.
__device__ __forceinline__ uint4 decode_bytes(uint2 codes, __half2 scale) {
  const unsigned a = codes.x ^ 0x80808080u;
  const unsigned b = codes.y ^ 0x80808080u;
  return make_uint4(scaled(__byte_perm(a, 0x64u, 0x4140u), byte_bias, scale),
                      scaled(__byte_perm(a, 0x64u, 0x4342u), byte_bias, scale),
                      scaled(__byte_perm(b, 0x64u, 0x4140u), byte_bias, scale),
                      scaled(__byte_perm(b, 0x64u, 0x4342u), byte_bias, scale));
}

// Eight nibbles times `scale`, as eight FP16 in dim order.
__device__ __forceinline__ uint4 decode_nibbles(unsigned codes, __half2 scale) {
  const unsigned biased = codes ^ 0x88888888u;
  const unsigned even = biased & 0x0F0F0F0Fu;
  const unsigned odd = biased >> 4 & 0x0F0F0F0Fu;
  const unsigned low = __byte_perm(even, odd, 0x5140u);
  const unsigned high = __byte_perm(even, odd, 0x7362u);
  return make_uint4(scaled(__byte_perm(low, 0x64u, 0x4140u), nibble_bias, scale),
                      scaled(__byte_perm(low, 0x64u, 0x4342u), nibble_bias, scale),
                      scaled(__byte_perm(high, 0x64u, 0x4140u), nibble_bias, scale),
                      scaled(__byte_perm(high, 0x64u, 0x4342u), nibble_bias, scale));
}

}  // namespace kv
