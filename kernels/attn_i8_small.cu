// Small-T split-KV attention over a paged cache of the INT8 family.
//
//   out[t][h] = softmax over keys j <= positions[t] of (0.0625 q[t][h] . k_j), times V
//
// attn_i8_small: grid (4 KV heads, splits, rows of the batch), block 32 W. One CTA sweeps the keys of one split for
// the 6 tokens x 6 heads of one KV head in blocks of Bc and stores unnormalised sums. Splits past the active count
// exit at once; an active but empty split stores m = -inf, l = 0, sums of 0.
// attn_i8_small_reduce: grid (24, 1, tokens x batch), block 256: one output row from the partials of all active splits.
// attn_i8_small_positions: grid 1, block 32: the positions of one call, in place of the engine's upload.
//
//   q, out                 BF16 [batch][tokens][24][256]
//   key_codes, ...         planes of the cache, see kv_codes.cuh; pages: logical -> physical page
//   positions              int32 [batch][tokens], ascending; the last one is the newest key
//   acc                    FP32 [batch][splits][tokens][24][256]
//   m, l                   FP32 [batch][splits][tokens][24], m in the natural domain
//   tokens                 query tokens of a batch row, 1 to 8, ceil(6 tokens / 16) = RT
//   wave                   CTAs of a whole wave over 4; 0: no whole-wave rule (batches)
//
// One row tile (one or two tokens) is swept by attn_split.cuh, more by attn_tile.cuh. The reduction is a programmatic dependent
// launch of the splits: its CTAs may be in place when the last split ends.
//
// Template parameters: C coding; RT row tiles 1 to 3; W warps; B CTAs an SM that the register budget must allow; Bc 32
// or 64; QS 1, or 2 producer warps a row tile (q); Early: next block fetched to registers at the top of the block (e);
// Dynamic: the arena is dynamic shared memory (d, q), `shared_bytes` of the sweep; PvF16: attn_pv_f16.
#include "attn_split.cuh"
#include "attn_tile.cuh"
#include "dependent.cuh"

namespace {

// Splits that `window` keys ask for, before the whole-wave rule (engine-kernels 7.4.6).
__device__ int base_splits(int window, int tokens) {
  int most = 85;
  int keys = window <= 4096 ? 64 : window <= 8198 ? 128 : window <= 16390 ? 256 : 480;
  if (tokens == 5 && window > 128 && window <= 512) keys = 32;
  if (tokens >= 6 && window > 128 && window <= 160) keys = 24;
  if (tokens >= 6 && window > 5000 && window <= 8198) {
    keys = 192;
    most = 42;
  }
  return max(4, min(most, (window + keys - 1) / keys));
}

__device__ int active_splits(int window, int tokens, int wave, int capacity) {
  int splits = base_splits(window, tokens);
  if (wave > 0 && splits > wave) {
    const int least = (window + 3967) / 3968;
    splits = min(splits, wave * ((least + wave - 1) / wave));
  }
  return min(splits, capacity);
}

}  // namespace

// Parts with 164 KiB of shared memory an SM or more hold three of the CTAs that others hold two of, and the 85 splits of
// a long window then run as one wave. With more than 128 threads a CTA the registers for that would have to be spilled:
// tried on an H200, 8x2x32 and 6x2x32 lost 10 to 40 %.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
__device__ constexpr int resident(int ctas, int warps) { return ctas == 2 && warps <= 4 ? 3 : ctas; }
#else
__device__ constexpr int resident(int ctas, int) { return ctas; }
#endif

template <kv::Coding C, int RT, int W, int Bc, int QS, bool Early, bool PvF16>
struct Sweep {
  using type = attn::Tile<C, RT, W, Bc, QS, Early, PvF16, attn::group>;
};
template <kv::Coding C, int W, int Bc, int QS, bool Early, bool PvF16>
struct Sweep<C, 1, W, Bc, QS, Early, PvF16> {
  using type = attn::Split<C, W, Bc, QS, Early, PvF16>;
};

template <kv::Coding C, int RT, int W, int B, int Bc, int QS, bool Early, bool Dynamic, bool PvF16>
__global__ void __launch_bounds__(32 * W, resident(B, W))
    attn_i8_small(const __nv_bfloat16* __restrict__ q, const unsigned char* __restrict__ key_codes,
                  const __half* __restrict__ key_scales, const unsigned char* __restrict__ value_codes,
                  const __half* __restrict__ value_scales, const int* __restrict__ pages,
                  const int* __restrict__ positions, float* __restrict__ acc, float* __restrict__ m,
                  float* __restrict__ l, int tokens, int wave) {
  using Tile = typename Sweep<C, RT, W, Bc, QS, Early, PvF16>::type;
  static_assert(Dynamic || Tile::shared_bytes <= 48 * 1024, "a static arena ends at 48 KiB");
  __shared__ alignas(256) unsigned char fixed[Dynamic ? 16 : Tile::shared_bytes];
  extern __shared__ __align__(256) unsigned char dynamic[];

  const int head = blockIdx.x;
  const int split = blockIdx.y;
  const int splits = gridDim.y;
  const int batch = blockIdx.z;
  const int count = tokens * attn::group;
  const attn::Rows rows = {q + static_cast<long long>(batch) * tokens * attn::query_heads * kv::dims, 0, count,
                           head * attn::group};
  Tile tile(Dynamic ? dynamic : fixed);
  tile.fetch_queries(rows, tile.warp);

  positions += batch * tokens;
  const int window = positions[tokens - 1] + 1;
  const int active = active_splits(window, tokens, wave, splits);
  if (split >= active) return;

  const int blocks = (window + Bc - 1) / Bc;
  const int span = blocks >= active ? (blocks + active - 1) / active * Bc : (window + active - 1) / active;
  const int low = split * span;
  const int high = min(low + span, window);

  const int warp = tile.warp;
  const int lane = threadIdx.x % 32;
  const int row = warp % RT * 16 + lane / 4;
  if (low < high) {
    const attn::Cache cache = {key_codes, key_scales, value_codes, value_scales, pages};
    const int high_a = row < count ? positions[row / attn::group] + 1 : high;
    const int high_b = row + 8 < count ? positions[(row + 8) / attn::group] + 1 : high;
    tile.sweep(cache, rows, head, low, high, high_a, high_b, positions[0] + 1);
  }

  allow_dependents();
  const long long base = (static_cast<long long>(batch) * splits + split) * tokens;
  if (warp < Tile::producers) {
    tile.reduce_sums();
    if (warp < RT && lane % 4 == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = row + half * 8;
        if (r < count) {
          const long long at = (base + r / attn::group) * attn::query_heads + head * attn::group + r % attn::group;
          m[at] = half == 0 ? tile.max_low : tile.max_high;
          l[at] = half == 0 ? tile.sum_low : tile.sum_high;
        }
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + half * 8;
    if (r < count) {
      const long long at = (base + r / attn::group) * attn::query_heads + head * attn::group + r % attn::group;
      tile.store(acc + at * kv::dims, half);
    }
  }
}

// Each warp sums every eighth split, a lane 8 dims, so that all loads are under way at once; then the warps' sums meet.
__global__ void __launch_bounds__(256)
    attn_i8_small_reduce(const float* __restrict__ acc, const float* __restrict__ m, const float* __restrict__ l,
                         const int* __restrict__ positions, __nv_bfloat16* __restrict__ out, int tokens, int wave,
                         int splits) {
  constexpr int turns = 11;  // 8 warps x 11 splits hold the most there can be, 85
  __shared__ float sums[8][kv::dims];
  const int head = blockIdx.x;
  const int token = blockIdx.z % tokens;
  const int batch = blockIdx.z / tokens;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  wait_for_kernel_before();
  const int window = positions[batch * tokens + tokens - 1] + 1;
  const int active = active_splits(window, tokens, wave, splits);
  const long long row = (static_cast<long long>(batch) * splits * tokens + token) * attn::query_heads + head;
  const long long step = static_cast<long long>(tokens) * attn::query_heads;

  float largest = -INFINITY;
  float peak[3], part[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int split = i * 32 + lane;
    peak[i] = split < active ? m[row + split * step] : -INFINITY;
    part[i] = split < active ? l[row + split * step] : 0.0f;
    largest = fmaxf(largest, peak[i]);
  }
  float4 low[turns], high[turns];
#pragma unroll
  for (int i = 0; i < turns; ++i) {
    const int split = i * 8 + warp;
    const float4* from = reinterpret_cast<const float4*>(acc + (row + split * step) * kv::dims) + lane * 2;
    low[i] = split < active ? from[0] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    high[i] = split < active ? from[1] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
  }
  float weight[3];
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    weight[i] = part[i] > 0.0f ? exp2_fast((peak[i] - largest) * attn::log2e) : 0.0f;
    total += weight[i] * part[i];
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(0xFFFFFFFFu, total, offset);

  float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 b = a;
#pragma unroll
  for (int i = 0; i < turns; ++i) {
    const float w = __shfl_sync(0xFFFFFFFFu, weight[i / 4], i % 4 * 8 + warp);
    a.x += w * low[i].x;
    a.y += w * low[i].y;
    a.z += w * low[i].z;
    a.w += w * low[i].w;
    b.x += w * high[i].x;
    b.y += w * high[i].y;
    b.z += w * high[i].z;
    b.w += w * high[i].w;
  }
  *reinterpret_cast<float4*>(&sums[warp][lane * 8]) = a;
  *reinterpret_cast<float4*>(&sums[warp][lane * 8 + 4]) = b;
  __syncthreads();
  float value = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) value += sums[i][threadIdx.x];
  out[((static_cast<long long>(batch) * tokens + token) * attn::query_heads + head) * kv::dims + threadIdx.x] =
      __float2bfloat16_rn(total > 0.0f ? value / total : 0.0f);
}

__global__ void attn_i8_small_positions(int* __restrict__ positions, int first, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) positions[i] = first + i;
}
