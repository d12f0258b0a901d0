// What the attention kernels over an INT8-family cache share: the cache, the query rows, and the queries' preparation.
//
// Q is rotated by H256 and quantised to int8 per row and 64 dims; the scale of such a group stays FP32.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attn_ptx.cuh"
#include "kv_codes.cuh"

namespace attn {

constexpr int query_heads = 24;
constexpr int group = 6;  // query heads of a KV head
constexpr float log2e = 1.4426950408889634f;
constexpr float softmax_scale = 0.0625f;

// The paged cache of one layer; see kv_codes.cuh for the layout of a plane.
struct Cache {
  const unsigned char* key_codes;
  const __half* key_scales;
  const unsigned char* value_codes;
  const __half* value_scales;
  const int* pages;  // logical page -> physical page
};

// Query rows of a CTA.
struct Rows {
  const __nv_bfloat16* q;  // [tokens][24][256]
  int first;               // packed row of the CTA's row 0
  int count;               // rows in use
  int first_head;
};

// `x` as a value the compiler knows nothing about: addresses derived from it are formed where they are used, not kept in
// registers over the whole sweep.
__device__ __forceinline__ int fresh(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// H256 over a warp: lane holds dims 8 lane .. 8 lane + 7.
__device__ __forceinline__ void rotate(float (&x)[8], int lane) {
#pragma unroll
  for (int stride = 1; stride < 8; stride *= 2) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if ((i & stride) == 0) {
        const float low = x[i];
        const float high = x[i + stride];
        x[i] = low + high;
        x[i + stride] = low - high;
      }
    }
  }
#pragma unroll
  for (int stride = 1; stride < 32; stride *= 2) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float other = __shfl_xor_sync(0xFFFFFFFFu, x[i], stride);
      x[i] = (lane & stride) == 0 ? x[i] + other : other - x[i];
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] *= 0.0625f;
}

// x / 127 and 1 / x to the nearest float wherever the result is a normal one: what __fdiv_rn and __frcp_rn do there, without
// their calls for the rest, which cost registers.
__device__ __forceinline__ float divided_by_127(float x) {
  constexpr float inverse = 1.0f / 127.0f;
  const float quotient = __fmul_rn(x, inverse);
  return __fmaf_rn(__fmaf_rn(quotient, -127.0f, x), inverse, quotient);
}
__device__ __forceinline__ float reciprocal(float x) {
  float guess;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(x));
  return __fmaf_rn(guess, __fmaf_rn(-x, guess, 1.0f), guess);
}

// Rotate and quantise 8 dims of a query row per lane: codes in dim order, and the scale of the lane's 64 dims.
__device__ __forceinline__ uint2 quantise_query(uint4 raw, int lane, float& scale) {
  float x[8];
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(words[i] << 16);
    x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
  rotate(x, lane);
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(x[i]));
#pragma unroll
  for (int offset = 1; offset < 8; offset *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
  }
  scale = divided_by_127(largest);
  const float inverse = scale > 0.0f ? reciprocal(scale) : 0.0f;
  unsigned codes[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int code = __float2int_rn(__fmul_rn(x[i], inverse));
    codes[i] = static_cast<unsigned>(max(-127, min(127, code))) & 0xFFu;
  }
  return make_uint2(codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24,
                    codes[4] | codes[5] << 8 | codes[6] << 16 | codes[7] << 24);
}

// Codes of 8 dims in the order that `kv::product_keys` gives keys, and the scale that goes with theirs.
template <kv::Coding C>
__device__ __forceinline__ uint2 product_query(uint2 codes, float& scale) {
  if constexpr (C != kv::rk4v4_e8) return codes;
  scale *= 0.0625f;
  return make_uint2(__byte_perm(codes.x, codes.y, 0x6420u), __byte_perm(codes.x, codes.y, 0x7531u));
}

// |dot| < 2^22, so sums that start at 1.5 x 2^23 as bits read as that float plus the dot. A product wants the start in four
// registers of its own: four constants that the compiler does not know to be equal stay there, one would be copied each time.
constexpr int dot_start = 0x4B400000;
__device__ __forceinline__ float dot_value(int bits) { return __int_as_float(bits) - 12582912.0f; }

}  // namespace attn
