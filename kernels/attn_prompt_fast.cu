// Fast prompt attention over a paged cache of the INT8 family (attn_prompt_fast).
//
//   out[t][h] = softmax over keys j <= positions[0] + t of (0.0625 q[t][h] . k_j), times V
//
// Each warp owns 16 query rows of one head during the whole sweep: scores, probabilities and sums never leave its
// registers. Raw code pages of 64 keys are double-buffered; keys and values are decoded in registers, by every warp for
// itself. P V is summed in FP16 over a page, then added to FP32. One CTA barrier a page.
//
// Grid (24, ceil(tokens / (16 Warps))), heads fastest, the last (longest) rows first; block 32 Warps; dynamic shared
// memory attn_fast::Map::bytes, 100,352 for int8 with 8 warps.
//
//   q, out          BF16 [tokens][24][256]
//   key_codes, ...  planes of the cache, see kv_codes.cuh; pages: logical -> physical page
//   positions       int32; only the first is read, the others follow it
//
// Template parameters: C coding; Warps 8 (128 rows) or 4 (64 rows).
#include <cuda_bf16.h>

#include "attn_tile.cuh"

namespace attn_fast {

constexpr int page = kv::page_tokens;
constexpr float base2_scale = attn::softmax_scale * attn::log2e;

template <kv::Coding C, int Warps>
struct Map {
  static constexpr int rows = 16 * Warps;
  static constexpr int threads = 32 * Warps;
  static constexpr int key_code_bytes = page * kv::key_bytes(C);
  static constexpr int value_code_bytes = page * kv::value_bytes(C);
  static constexpr int key_scale_bytes = page * 8;
  static constexpr int value_scale_bytes = page * kv::value_scales(C) * 2;
  static constexpr int value_at = key_code_bytes;
  static constexpr int key_scale_at = value_at + value_code_bytes;
  static constexpr int value_scale_at = key_scale_at + key_scale_bytes;
  static constexpr int stage_bytes = value_scale_at + value_scale_bytes;
  static constexpr int stage_at = rows * kv::dims;
  static constexpr int bytes = stage_at + 2 * stage_bytes;
};

// Chunk of 16 bytes of a key row: lane quads of neighbouring keys fall into different banks.
template <kv::Coding C>
__device__ __forceinline__ int key_chunk(int key, int chunk) {
  if constexpr (kv::key_bytes(C) == 256) return chunk ^ (key & 1) << 2;
  if constexpr (kv::key_bytes(C) == 128) return chunk ^ (key & 3) << 1;
  return chunk ^ (key >> 1 & 3);
}

// Copy one page of codes and scales into a stage.
template <kv::Coding C, int Warps>
__device__ __forceinline__ void copy_page(unsigned char* stage, const attn::Cache& cache, long long row) {
  using M = Map<C, Warps>;
  constexpr int key_chunks = kv::key_bytes(C) / 16;
  constexpr int value_chunks = kv::value_bytes(C) / 16;
  const unsigned char* keys = cache.key_codes + row * kv::key_bytes(C);
#pragma unroll
  for (int i = threadIdx.x; i < page * key_chunks; i += M::threads) {
    const int key = i / key_chunks;
    cp_async_cg(stage + key * kv::key_bytes(C) + (key_chunk<C>(key, i % key_chunks) << 4), keys + i * 16);
  }
  const unsigned char* values = cache.value_codes + row * kv::value_bytes(C);
#pragma unroll
  for (int i = threadIdx.x; i < page * value_chunks; i += M::threads) {
    const int key = i / value_chunks;
    cp_async_cg(stage + M::value_at + key * kv::value_bytes(C) + ((i % value_chunks ^ (key & 7)) << 4),
                values + i * 16);
  }
  for (int i = threadIdx.x; i < M::key_scale_bytes / 16; i += M::threads) {
    cp_async_cg(stage + M::key_scale_at + i * 16,
                reinterpret_cast<const unsigned char*>(cache.key_scales + row * 4) + i * 16);
  }
  for (int i = threadIdx.x; i < M::value_scale_bytes / 16; i += M::threads) {
    cp_async_cg(stage + M::value_scale_at + i * 16,
                reinterpret_cast<const unsigned char*>(cache.value_scales + row * kv::value_scales(C)) + i * 16);
  }
  cp_async_commit();
}

// Whether this thread copied a value scale so large that 64 keys could leave the range of FP16 sums.
template <kv::Coding C, int Warps>
__device__ __forceinline__ bool large_scale(const unsigned char* stage) {
  using M = Map<C, Warps>;
  constexpr float most = C == kv::int8 ? 8.0f : 64.0f;
  bool large = false;
  for (int i = threadIdx.x; i < M::value_scale_bytes / 16; i += M::threads) {
    const __half* scales = reinterpret_cast<const __half*>(stage + M::value_scale_at + i * 16);
#pragma unroll
    for (int j = 0; j < 8; ++j) large = large || __half2float(scales[j]) > most;
  }
  return large;
}

__device__ __forceinline__ __half2 pair_of(const unsigned char* low, const unsigned char* high) {
  return __halves2half2(*reinterpret_cast<const __half*>(low), *reinterpret_cast<const __half*>(high));
}

}  // namespace attn_fast

template <kv::Coding C, int Warps>
__global__ void __launch_bounds__(32 * Warps, 1)
    attn_prompt_fast(const __nv_bfloat16* __restrict__ q, const unsigned char* __restrict__ key_codes,
                     const __half* __restrict__ key_scales, const unsigned char* __restrict__ value_codes,
                     const __half* __restrict__ value_scales, const int* __restrict__ pages,
                     const int* __restrict__ positions, __nv_bfloat16* __restrict__ out, int tokens) {
  static_assert(Warps == 4 || Warps == 8, "64 or 128 rows a CTA");
  using M = attn_fast::Map<C, Warps>;
  using Unit = typename kv::KeyUnit<C>::type;
  constexpr int page = attn_fast::page;
  extern __shared__ __align__(128) unsigned char arena[];
  unsigned char* stages = arena + M::stage_at;

  const int head = blockIdx.x;
  const int kv_head = head / attn::group;
  const int first_row = (gridDim.y - 1 - blockIdx.y) * M::rows;
  const int count = min(M::rows, tokens - first_row);
  const int start = positions[0] + 1;  // keys that token 0 sees
  const int high = start + first_row + count - 1;
  const int last = (high - 1) / page;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int quad = lane % 4;
  const int row = warp * 16 + lane / 4;
  const attn::Cache cache = {key_codes, key_scales, value_codes, value_scales, pages};

  attn_fast::copy_page<C, Warps>(stages, cache, kv::page_row(pages[0], kv_head));

  // Queries: codes with 4-dim words of each 64-dim group transposed (word 4a + b at 4b + a), so that the 16 dims a
  // lane decodes from one unit of key codes are the four words its product needs; scales pass through stage 1.
  float* row_scales = reinterpret_cast<float*>(stages + M::stage_bytes);
  for (int r = warp; r < M::rows; r += Warps) {
    uint2 codes = make_uint2(0u, 0u);
    float scale = 0.0f;
    if (r < count) {
      const long long at = (static_cast<long long>(first_row + r) * attn::query_heads + head) * kv::dims + lane * 8;
      codes = attn::quantise_query(*reinterpret_cast<const uint4*>(q + at), lane, scale);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int word = lane * 2 + i;
      const int moved = word / 16 * 16 + word % 4 * 4 + word / 4 % 4;
      *reinterpret_cast<unsigned*>(arena + r * kv::dims + ((moved / 4 ^ (r & 7)) << 4) + moved % 4 * 4) =
          i == 0 ? codes.x : codes.y;
    }
    if (lane % 8 == 0) row_scales[r * 4 + lane / 8] = scale;
  }
  __syncthreads();
  float q_scale[2][4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    q_scale[0][g] = row_scales[row * 4 + g];
    q_scale[1][g] = row_scales[(row + 8) * 4 + g];
  }
  // Rows past the last token repeat its count; they are computed and not stored.
  const int high_a = min(start + first_row + row, high);
  const int high_b = min(start + first_row + row + 8, high);
  const int first_visible = start + first_row + warp * 16;  // fewest keys of the warp's rows
  const int most_visible = min(first_visible + 15, high);

  float acc[32][4] = {};
  float max_top = -INFINITY, max_bottom = -INFINITY;
  float sum_top = 0.0f, sum_bottom = 0.0f;

#pragma unroll 1
  for (int block = 0; block <= last; ++block) {
    unsigned char* stage = stages + (block & 1) * M::stage_bytes;
    const int first_key = block * page;
    cp_async_wait<0>();
    if (first_key + page > high) {
      // The cache behind the last token may hold anything, and P = 0 does not silence a NaN.
      __syncthreads();
      for (int i = threadIdx.x; i < page * kv::value_scales(C); i += M::threads) {
        if (first_key + i / kv::value_scales(C) >= high) {
          reinterpret_cast<__half*>(stage + M::value_scale_at)[i] = __ushort_as_half(0);
        }
      }
      __syncthreads();
    }
    const bool large = __syncthreads_or(attn_fast::large_scale<C, Warps>(stage)) != 0;
    if (block < last) {
      attn_fast::copy_page<C, Warps>(stages + (block + 1 & 1) * M::stage_bytes, cache,
                                     kv::page_row(pages[block + 1], kv_head));
    }
    if (first_key >= most_visible) continue;

    float s[8][4] = {};
#pragma unroll 1
    for (int g = 0; g < 4; ++g) {
      unsigned a[2][4];
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const int r = warp * 16 + (lane & 15);
        ldmatrix_x4(a[step], arena + r * kv::dims + ((g * 4 + step * 2 + lane / 16 ^ (r & 7)) << 4));
      }
      const float q_top = q_scale[0][0];
      const float q_bottom = q_scale[1][0];
#pragma unroll
      for (int tile = 0; tile < 8; ++tile) {
        const int key = tile * 8 + lane / 4;
        const int byte = (g * 4 + quad) * static_cast<int>(sizeof(Unit));
        const unsigned char* unit =
            stage + key * kv::key_bytes(C) + (attn_fast::key_chunk<C>(key, byte / 16) << 4) + byte % 16;
        const uint4 b = kv::expand_keys<C>(*reinterpret_cast<const Unit*>(unit));
        int dot[4] = {0x4B400000, 0x4B400000, 0x4B400000, 0x4B400000};
        mma_s8_16832(dot, a[0], b.x, b.y);
        mma_s8_16832(dot, a[1], b.z, b.w);
        const __half* scale = reinterpret_cast<const __half*>(stage + M::key_scale_at) + (tile * 8 + quad * 2) * 4 + g;
        const float even = __half2float(scale[0]);
        const float odd = __half2float(scale[4]);
        s[tile][0] += q_top * even * (__int_as_float(dot[0]) - 12582912.0f);
        s[tile][1] += q_top * odd * (__int_as_float(dot[1]) - 12582912.0f);
        s[tile][2] += q_bottom * even * (__int_as_float(dot[2]) - 12582912.0f);
        s[tile][3] += q_bottom * odd * (__int_as_float(dot[3]) - 12582912.0f);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float front = q_scale[half][0];
        q_scale[half][0] = q_scale[half][1];
        q_scale[half][1] = q_scale[half][2];
        q_scale[half][2] = q_scale[half][3];
        q_scale[half][3] = front;
      }
    }
    if (first_key + page > first_visible) {
#pragma unroll
      for (int tile = 0; tile < 8; ++tile) {
        const int key = first_key + tile * 8 + quad * 2;
        if (key >= high_a) s[tile][0] = -INFINITY;
        if (key + 1 >= high_a) s[tile][1] = -INFINITY;
        if (key >= high_b) s[tile][2] = -INFINITY;
        if (key + 1 >= high_b) s[tile][3] = -INFINITY;
      }
    }
    float top = max_top;
    float bottom = max_bottom;
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      top = fmaxf(top, fmaxf(s[tile][0], s[tile][1]));
      bottom = fmaxf(bottom, fmaxf(s[tile][2], s[tile][3]));
    }
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, offset));
      bottom = fmaxf(bottom, __shfl_xor_sync(0xFFFFFFFFu, bottom, offset));
    }
    // Page 0 shows every row its first key, so m is finite from here on.
    const float base_top = top * attn_fast::base2_scale;
    const float base_bottom = bottom * attn_fast::base2_scale;
    const float alpha_top = exp2_fast(max_top * attn_fast::base2_scale - base_top);
    const float alpha_bottom = exp2_fast(max_bottom * attn_fast::base2_scale - base_bottom);
    max_top = top;
    max_bottom = bottom;
    sum_top *= alpha_top;
    sum_bottom *= alpha_bottom;
    unsigned p[4][4];
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float p0 = exp2_fast(s[tile][0] * attn_fast::base2_scale - base_top);
      const float p1 = exp2_fast(s[tile][1] * attn_fast::base2_scale - base_top);
      const float p2 = exp2_fast(s[tile][2] * attn_fast::base2_scale - base_bottom);
      const float p3 = exp2_fast(s[tile][3] * attn_fast::base2_scale - base_bottom);
      sum_top += p0 + p1;
      sum_bottom += p2 + p3;
      p[tile / 2][tile % 2 * 2] = kv::half2_bits(__floats2half2_rn(p0, p1));
      p[tile / 2][tile % 2 * 2 + 1] = kv::half2_bits(__floats2half2_rn(p2, p3));
    }

    // 64 dims at a time: eight n8 tiles, whose columns are dims interleaved by 2 (int8) or 4 (nibbles).
    const __half2 reduced = __float2half2_rn(large ? 1.0f / 8192.0f : 1.0f);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      unsigned sums[8][2] = {};
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const int key = step * 16 + (lane & 15);
        const unsigned char* codes = stage + M::value_at + key * kv::value_bytes(C);
        const unsigned char* scale =
            stage + M::value_scale_at + (step * 16 + quad * 2) * kv::value_scales(C) * 2;
        constexpr int next = kv::value_scales(C) * 2;
        if constexpr (C == kv::int8) {
          const __half2 low = __hmul2(attn_fast::pair_of(scale + part * 2, scale + next + part * 2), reduced);
          const __half2 up = __hmul2(attn_fast::pair_of(scale + 8 * next + part * 2, scale + 9 * next + part * 2), reduced);
#pragma unroll
          for (int chunk = 0; chunk < 4; chunk += 2) {
            unsigned v[4];
            ldmatrix_x4_trans(v, codes + ((part * 4 + chunk + lane / 16 ^ (key & 7)) << 4));
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const unsigned first = v[half * 2] ^ 0x80808080u;
              const unsigned second = v[half * 2 + 1] ^ 0x80808080u;
              const int tile = (chunk + half) * 2;
              mma_f16_16816_f16(sums[tile], p[step],
                                kv::scaled(__byte_perm(first, 0x64u, 0x4240u), kv::byte_bias, low),
                                kv::scaled(__byte_perm(second, 0x64u, 0x4240u), kv::byte_bias, up));
              mma_f16_16816_f16(sums[tile + 1], p[step],
                                kv::scaled(__byte_perm(first, 0x64u, 0x4341u), kv::byte_bias, low),
                                kv::scaled(__byte_perm(second, 0x64u, 0x4341u), kv::byte_bias, up));
            }
          }
        } else {
          unsigned v[4];
          ldmatrix_x4_trans(v, codes + ((part * 2 + lane / 16 ^ (key & 7)) << 4));
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const unsigned char* at = scale + (part * 2 + half) * 2;
            const __half2 low = __hmul2(attn_fast::pair_of(at, at + next), reduced);
            const __half2 up = __hmul2(attn_fast::pair_of(at + 8 * next, at + 9 * next), reduced);
            const unsigned first = v[half * 2] ^ 0x88888888u;
            const unsigned second = v[half * 2 + 1] ^ 0x88888888u;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              mma_f16_16816_f16(sums[half * 4 + i], p[step],
                                kv::scaled(first >> (4 * i) & 0x000F000Fu | 0x64006400u, kv::nibble_bias, low),
                                kv::scaled(second >> (4 * i) & 0x000F000Fu | 0x64006400u, kv::nibble_bias, up));
            }
          }
        }
      }
#pragma unroll
      for (int t = 0; t < 8; ++t) {
        float2 upper = __half22float2(kv::bits_half2(sums[t][0]));
        float2 lower = __half22float2(kv::bits_half2(sums[t][1]));
        if (large) {
          upper.x *= 8192.0f;
          upper.y *= 8192.0f;
          lower.x *= 8192.0f;
          lower.y *= 8192.0f;
        }
        float(&c)[4] = acc[part * 8 + t];
        c[0] = c[0] * alpha_top + upper.x;
        c[1] = c[1] * alpha_top + upper.y;
        c[2] = c[2] * alpha_bottom + lower.x;
        c[3] = c[3] * alpha_bottom + lower.y;
      }
    }
  }

#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
    sum_top += __shfl_xor_sync(0xFFFFFFFFu, sum_top, offset);
    sum_bottom += __shfl_xor_sync(0xFFFFFFFFu, sum_bottom, offset);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + half * 8;
    if (r >= count) continue;
    const float factor = 1.0f / (half == 0 ? sum_top : sum_bottom);
    __nv_bfloat16* to = out + (static_cast<long long>(first_row + r) * attn::query_heads + head) * kv::dims;
    // Tiles i of a span of `width` interleaved tiles hold dims width * column + i: a lane's two columns are 2 x width
    // neighbouring dims.
    constexpr int width = C == kv::int8 ? 2 : 4;
#pragma unroll
    for (int span = 0; span < 32 / width; ++span) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
#pragma unroll
        for (int i = 0; i < width; i += 2) {
          const float low = acc[span * width + i][half * 2 + column] * factor;
          const float up = acc[span * width + i + 1][half * 2 + column] * factor;
          *reinterpret_cast<__nv_bfloat162*>(to + span * 8 * width + (quad * 2 + column) * width + i) =
              __floats2bfloat162_rn(low, up);
        }
      }
    }
  }
}
