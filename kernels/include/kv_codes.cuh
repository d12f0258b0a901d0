// KV codings of the INT8 family: row sizes, key codes expanded to int8, value codes decoded to FP16.
//
// A row is one token of one KV head, 256 dims. Pages hold 64 tokens; offset of a row in a plane with L elements a
// row: L * (token in page + 64 * (head + 4 * page)). Keys carry 4 FP16 scales a row (64 dims each), values 4 (int8)
// or 8 (4-bit, 32 dims each).
//
// Every packed key code is a 4-bit index, its upper bit the sign, into 16 magnitudes, so one lookup serves all codings:
//   rk4v4      sign << 3 | magnitude into the Lloyd code book
//   rk4v4_e8   two's complement
//   rk2v4_e8   root coordinate x 4 + axis (-5..5) in two's complement, into the rounded products of the block's radius
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

// One word a root: nibble d holds the coordinate of dim d, times 4, plus 8: two's complement with the upper bit inverted.
constexpr RootTable make_roots() {
  RootTable table = {};
  int r = 0;
  for (int i = 0; i < 8; ++i) {
    for (int j = i + 1; j < 8; ++j) {
      for (int signs = 0; signs < 4; ++signs) {
        unsigned word = 0x88888888u;
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
      word |= (plus ? 10u : 6u) << (4 * d);
    }
    table.word[r++] = word | (minus % 2 == 0 ? 10u : 6u) << 28;
  }
  for (; r < 256; ++r) table.word[r] = 0x88888888u;
  return table;
}

struct alignas(8) RadiusTable {
  unsigned word[16][2];
};

// Byte x of radius k: rint(x * 2^((k - 11) / 3)) for x to 5, the factor to 4 decimals; radius 0 is all zeros.
constexpr RadiusTable make_radii() {
  constexpr int factor[16] = {0,    992,  1250, 1575,  1984,  2500,  3150,  3969,
                                5000, 6300, 7937, 10000, 12599, 15874, 20000, 25198};
  RadiusTable table = {};
  for (int k = 0; k < 16; ++k) {
    for (int x = 1; x <= 5; ++x) {
      int code = x * factor[k] / 10000;
      const int rest = x * factor[k] % 10000;
      if (rest > 5000 || (rest == 5000 && code % 2 != 0)) ++code;
      table.word[k][x / 4] |= static_cast<unsigned>(code) << (8 * (x % 4));
    }
  }
  return table;
}

__device__ const RootTable roots = make_roots();
__device__ const RadiusTable radii = make_radii();

// `prmt` in its general form: a selector nibble of 8 + i gives the sign of byte i, eight times.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prmt
__device__ __forceinline__ unsigned permute(unsigned low, unsigned high, unsigned select) {
  unsigned value;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(value) : "r"(low), "r"(high), "r"(select));
  return value;
}

// The four int8 codes that the low four nibbles of `nibbles` index, `flipped` being `nibbles` with bit 3 of each inverted.
// Nibbles 0 to 7 index the first 8 bytes of `table`, codes; 8 to 15 the others, codes with the sign left out. All are 0 to
// 127, so a nibble of the other half selects a sign, 0.
__device__ __forceinline__ unsigned lookup4(unsigned nibbles, unsigned flipped, uint4 table) {
  const unsigned plus = permute(table.x, table.y, nibbles);
  const unsigned minus = permute(table.z, table.w, flipped);
  return plus + 0x80808080u - minus ^ 0x80808080u;
}

// Eight codes.
__device__ __forceinline__ uint2 lookup8(unsigned nibbles, unsigned flipped, uint4 table) {
  return make_uint2(lookup4(nibbles, flipped, table), lookup4(nibbles >> 16, flipped >> 16, table));
}

template <Coding C>
__device__ __forceinline__ uint4 nibble_codes() {
  static_assert(C == rk4v4 || C == rk4v4_e8, "only 4-bit key codings have one table for all rows");
  if constexpr (C == rk4v4) {
    return make_uint4(0x2C1F1206u, 0x7F604B3Au, 0x2C1F1206u, 0x7F604B3Au);
  } else {
    return make_uint4(0x03020100u, 0x07060504u, 0x05060708u, 0x01020304u);
  }
}

// Eight int8 codes of one rk2v4_e8 block: root byte low, radius and axis byte high. Invalid roots decode to zeros.
__device__ __forceinline__ uint2 e8_block(unsigned code, const unsigned* root_words, const uint2* radius_words) {
  const unsigned root = code & 0xFFu;
  const unsigned radius = root < 240u ? code >> 12 & 0xFu : 0u;
  const unsigned axis = 1u << (code >> 7 & 28u);
  unsigned biased = root_words[root];
  biased = (code & 0x100u) != 0 ? biased - axis : biased + axis;
  const uint2 plus = radius_words[radius];
  // Byte i of the codes without sign is byte 8 - i; 0 to 2 are never asked for, and byte 0 is 0.
  const uint4 table = make_uint4(plus.x, plus.y, permute(plus.x, plus.y, 0x5000u), permute(plus.x, plus.y, 0x1234u));
  return lookup8(biased ^ 0x88888888u, biased, table);
}

__device__ __forceinline__ uint2 e8_block(unsigned code) {
  return e8_block(code, roots.word, reinterpret_cast<const uint2*>(radii.word));
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
    const uint2 low = lookup8(unit.x, unit.x ^ 0x88888888u, table);
    const uint2 high = lookup8(unit.y, unit.y ^ 0x88888888u, table);
    return make_uint4(low.x, low.y, high.x, high.y);
  }
}

// The same for a product with queries that follow: of rk4v4_e8 the codes times 16, of every 8 dims the even, then the odd.
template <Coding C>
__device__ __forceinline__ uint4 product_keys(typename KeyUnit<C>::type unit) {
  if constexpr (C == rk4v4_e8) {
    constexpr unsigned upper = 0xF0F0F0F0u;
    return make_uint4(unit.x << 4 & upper, unit.x & upper, unit.y << 4 & upper, unit.y & upper);
  } else {
    return expand_keys<C>(unit);
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

// Two halves in a word: the intrinsics take them apart.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#half-precision-floating-point-instructions
__device__ __forceinline__ unsigned sub_halves(unsigned a, unsigned b) {
  unsigned value;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
  return value;
}
__device__ __forceinline__ unsigned mul_halves(unsigned a, unsigned b) {
  unsigned value;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
  return value;
}
__device__ __forceinline__ unsigned fma_halves(unsigned a, unsigned b, unsigned c) {
  unsigned value;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(value) : "r"(a), "r"(b), "r"(c));
  return value;
}

__device__ __forceinline__ float low_half(unsigned halves) {
  float value;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(value) : "r"(halves));
  return value;
}
__device__ __forceinline__ float high_half(unsigned halves) {
  float value;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}" : "=f"(value) : "r"(halves));
  return value;
}

// 0x64 as the upper byte of a half makes its lower byte an integer over 1024: subtracting the bias is exact, so the
// product with the scale is the only rounding.
__device__ __forceinline__ unsigned scaled(unsigned biased, unsigned bias, unsigned scale) {
  return mul_halves(sub_halves(biased, bias), scale);
}
__device__ __forceinline__ unsigned scaled(unsigned biased, unsigned bias, __half2 scale) {
  return scaled(biased, bias, half2_bits(scale));
}

// The same where the lower byte holds 16 (code + 8), so that `biased` is 1024 + 128 + 16 code: / 16 - 72 is exact too.
__device__ __forceinline__ unsigned scaled_sixteenth(unsigned biased, unsigned scale) {
  return mul_halves(fma_halves(biased, 0x2C002C00u, 0xD480D480u), scale);
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
