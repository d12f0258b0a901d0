// Ternary weights times int8 activations: what the small-T kernel and the tile kernel share.
//
// A 32-bit code word holds 16 consecutive codes of a row. Lane l = lane mod 4 of a warp owns k = 16 l .. 16 l + 15 of each
// 64-element group, one word a row. A word feeds two S8 k32 products: its codes 0..7 the first, 8..15 the second, the even
// ones into the first half of k, the odd ones into the second. So the activation byte that meets code 8 s + 2 j + h of lane
// l's word is byte j of fragment register h of product s.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "words.cuh"

// int8 bytes of the eight codes of a word's half, even codes in .x, odd in .y. The table reads 00 0, 01 +1, 10 -2, 11 -1.
__device__ __forceinline__ void ternary_fragments(unsigned word, uint2 (&half)[2]) {
  constexpr unsigned kTable = 0xFFFE0100u;
  const unsigned even = word & 0x33333333u, odd = word >> 2 & 0x33333333u;
  half[0] = {byte_permute(kTable, 0, even), byte_permute(kTable, 0, odd)};
  half[1] = {byte_permute(kTable, 0, even >> 16), byte_permute(kTable, 0, odd >> 16)};
}

// An int32 accumulator that starts at these bits, 1.5 * 2^23, reads as that float plus the sum, for sums under 2^22.
constexpr int kFloatBits = 0x4B400000;
__device__ __forceinline__ float sum_of(int accumulator) { return __int_as_float(accumulator) - 12582912.0f; }

// acc += sum * (weight scale * activation scale), the product of the scales rounded first.
__device__ __forceinline__ float scaled_sum(int accumulator, float weight_scale, float x_scale, float acc) {
  return fmaf(sum_of(accumulator), __fmul_rn(weight_scale, x_scale), acc);
}

// Where the rows of one parent go: rows below `split` to `first`, the others to `second`, token-major.
struct Destination {
  __nv_bfloat16* first;
  __nv_bfloat16* second;
  int split;
  int first_stride, second_stride;  // elements from one token to the next
};

// Store one m16n8 tile: `row` is its first row, `column` its first column, `live` the columns that exist. Lanes of
// neighbouring rows swap a value so that each stores two rows of one column. With `add`, out = bf16(float(out) + acc).
__device__ __forceinline__ void store_tile(const Destination& to, int row, int column, int live, bool add,
                                           const float (&acc)[4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, l = lane % 4;
  const bool second = row >= to.split;
  __nv_bfloat16* const base = second ? to.second : to.first;
  const int stride = second ? to.second_stride : to.first_stride;
  row -= second ? to.split : 0;
  const bool odd = g & 1;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float mine = odd ? acc[2 * half + 1] : acc[2 * half];
    const float theirs = __shfl_xor_sync(0xFFFFFFFFu, odd ? acc[2 * half] : acc[2 * half + 1], 4);
    float low = odd ? theirs : mine, high = odd ? mine : theirs;
    const int t = column + 2 * l + odd;
    if (t < live) {
      unsigned* const out =
          reinterpret_cast<unsigned*>(base + static_cast<long long>(t) * stride + row + 8 * half + (g & ~1));
      if (add) {
        const unsigned old = *out;
        low += bf16_low(old);
        high += bf16_high(old);
      }
      *out = pack_bf16(low, high);
    }
  }
}
