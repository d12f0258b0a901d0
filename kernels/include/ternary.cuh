// Ternary weights times int8 activations: what the small-T kernel and the tile kernel share.
//
// A 32-bit code word holds 16 consecutive codes of a row. Lane l = lane mod 4 of a warp owns k = 16 l .. 16 l + 15 of each
// 64-element group, one word a row. A word feeds two S8 k32 products, eight codes each. The four codes k = 4 b + q, b = 0 .. 3, of
// one q lie two bits apart in the word's four bytes, so a shift and a mask make one fragment register of them: registers q = 0, 1
// are the first and second half of k of product 0, q = 2, 3 of product 1. Byte b of activation register q is k = 16 l + 4 b + q.
// (A byte permute over the table 0, +1, -2, -1 costs four logic operations more a word.)
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "words.cuh"

// Codes times 64 as int8, four a register: two's complement of two bits in the top of each byte (10 is -128).
__device__ __forceinline__ void ternary_fragments(unsigned word, unsigned (&q)[4]) {
  q[0] = word << 6 & 0xC0C0C0C0u;
  q[1] = word << 4 & 0xC0C0C0C0u;
  q[2] = word << 2 & 0xC0C0C0C0u;
  q[3] = word & 0xC0C0C0C0u;
}

// What the sums carry too much of because codes come times 64; exact to remove at the end.
constexpr float kCodeUnit = 1.0f / 64.0f;

// acc += sum * (weight scale * activation scale), the product of the scales rounded first.
__device__ __forceinline__ float scaled_sum(int sum, float weight_scale, float x_scale, float acc) {
  return fmaf(__int2float_rn(sum), __fmul_rn(weight_scale, x_scale), acc);
}

// Where the rows of one parent go: rows below `split` to `first`, the others to `second`, token-major.
struct Destination {
  __nv_bfloat16* first;
  __nv_bfloat16* second;
  int split;
  int first_stride, second_stride;  // elements from one token to the next
};

// Store one m16n8 tile of sums times `unit`, a power of two: `row` is its first row, `column` its first column, `live` the columns
// that exist. Lanes of neighbouring rows swap a value so that each stores two rows of one column. With `add`,
// out = bf16(float(out) + acc * unit).
__device__ __forceinline__ void store_tile(const Destination& to, int row, int column, int live, bool add, float unit,
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
    float low = (odd ? theirs : mine) * unit, high = (odd ? mine : theirs) * unit;
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
