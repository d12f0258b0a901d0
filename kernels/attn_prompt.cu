// Standard prompt attention over a paged cache of the INT8 family.
//
//   out[t][h] = softmax over keys j <= positions[0] + t of (0.0625 q[t][h] . k_j), times V
//
// Block 512 (16 warps), 64 query rows x 64 keys (one page) a step; 4 warps score and keep the softmax while 12 decode V,
// then all multiply. Dynamic shared memory: attn::Tile::shared_bytes, one CTA an SM.
//   Pack false: rows are the tokens of one query head, grid (ceil(tokens / 64), 24).
//   Pack true:  rows are token x 6 + head of one KV head (attn_pack_gqa), grid (ceil(6 tokens / 64), 4): the six heads
//               of a KV head share a sweep, but the last row of a block sees fewer tokens beyond its first.
//
//   q, out          BF16 [tokens][24][256]
//   key_codes, ...  planes of the cache, see kv_codes.cuh; pages: logical -> physical page
//   positions       int32; only the first is read, the others follow it
//
// Template parameters: C coding; Pack; PvF16: attn_pv_f16, for rk8v4, rk4v4 and rk4v4_e8.
#include "attn_tile.cuh"

template <kv::Coding C, bool Pack, bool PvF16>
__global__ void __launch_bounds__(512, 1)
    attn_prompt(const __nv_bfloat16* __restrict__ q, const unsigned char* __restrict__ key_codes,
                const __half* __restrict__ key_scales, const unsigned char* __restrict__ value_codes,
                const __half* __restrict__ value_scales, const int* __restrict__ pages,
                const int* __restrict__ positions, __nv_bfloat16* __restrict__ out, int tokens) {
  static_assert(!PvF16 || (C != kv::int8 && C != kv::rk2v4_e8), "attn_pv_f16 leaves int8 and rk2v4-e8 prompts alone");
  constexpr int group = Pack ? attn::group : 1;
  using Tile = attn::Tile<C, 4, 16, 64, 1, false, PvF16, group>;
  extern __shared__ __align__(128) unsigned char arena[];

  const int first_row = blockIdx.x * Tile::rows;
  const int first_head = Pack ? blockIdx.y * attn::group : blockIdx.y;
  const int count = min(Tile::rows, tokens * group - first_row);
  const int start = positions[0] + 1;  // keys that token 0 sees
  const int high = start + (first_row + count - 1) / group;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int row = warp % 4 * 16 + lane / 4;
  const int high_a = min(start + (first_row + row) / group, high);
  const int high_b = min(start + (first_row + row + 8) / group, high);

  Tile tile(arena);
  const attn::Cache cache = {key_codes, key_scales, value_codes, value_scales, pages};
  const attn::Rows rows = {q, first_row, count, first_head};
  tile.fetch_queries(rows, tile.warp);
  tile.sweep(cache, rows, first_head / attn::group, 0, high, high_a, high_b, start + first_row / group);

  // The last product has read alpha; 1 / l takes its place.
  __syncthreads();
  float* inverse = reinterpret_cast<float*>(arena + Tile::alpha_at);
  if (warp < Tile::producers) {
    tile.reduce_sums();
    if (lane % 4 == 0) {
      inverse[row] = tile.sum_low > 0.0f ? 1.0f / tile.sum_low : 0.0f;
      inverse[row + 8] = tile.sum_high > 0.0f ? 1.0f / tile.sum_high : 0.0f;
    }
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + half * 8;
    if (r < count) {
      const float factor = inverse[r];
      const int packed = first_row + r;
      const long long at = static_cast<long long>(packed / group) * attn::query_heads + first_head + packed % group;
      __nv_bfloat16* to = out + at * kv::dims + warp / 4 * Tile::tiles * 8 + lane % 4 * 2;
#pragma unroll
      for (int t = 0; t < Tile::tiles; ++t) {
        *reinterpret_cast<__nv_bfloat162*>(to + t * 8) =
            __floats2bfloat162_rn(tile.acc[t][half * 2] * factor, tile.acc[t][half * 2 + 1] * factor);
      }
    }
  }
}
