// The sweep of one CTA over a range of keys, shared by the small-T and the standard prompt kernel.
//
//   out[row] = sum_j p_j V_j, p_j = exp(0.0625 q.k_j - m), m = running maximum, l = sum_j p_j (before rounding)
//
// Rows are (token, query head) pairs of one KV head, in 16-row tiles: packed row R is token R / Group, head
// first_head + R % Group. Q is rotated by H256 and quantised to int8 per row and 64 dims; K codes are expanded to an
// int8 tile; V codes are decoded to an FP16 tile (code x scale, one rounding); P is rounded to FP16.
//
// Row tile t is scored by warps t, t + RT (QS = 2: half of a block's keys each) while the other warps decode V; then
// every warp multiplies P by V for row tile warp % RT and a slice of 256 / (W / RT) value dims. Two CTA barriers a
// block. One K/V stage: the next block is copied after the first product, or (Early) held in registers from the top
// of the block.
//
// A producer is one warp with some 550 dependent instructions a block, so on parts with more bandwidth an SM than the
// split count (at most 85) can draw, its latency is the time of a block: on an H200 about 2000 of 2700 cycles. Tried there
// and dropped, all within 5 % or worse: prefetching the block after next into the L2, turning the warp roles from CTA to
// CTA, scoring two or four groups at a time, scoring key tile by key tile with Q in registers, decoding four keys at a time.
//
// Shared tiles are XOR-swizzled in 16-byte chunks by the row's low bits: padding would not leave RT 3 under 48 KiB.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attn_ptx.cuh"
#include "cp_async.cuh"
#include "kv_codes.cuh"
#include "mma.cuh"

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
  scale = __fdiv_rn(largest, 127.0f);
  const float inverse = scale > 0.0f ? __frcp_rn(scale) : 0.0f;
  unsigned codes[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int code = __float2int_rn(__fmul_rn(x[i], inverse));
    codes[i] = static_cast<unsigned>(max(-127, min(127, code))) & 0xFFu;
  }
  return make_uint2(codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24,
                    codes[4] | codes[5] << 8 | codes[6] << 16 | codes[7] << 24);
}

template <kv::Coding C, int RT, int W, int Bc, int QS, bool Early, bool PvF16, int Group>
struct Tile {
  static_assert(Bc == 32 || Bc == 64, "a key block is half a page or a page");
  static_assert(QS == 1 || QS == 2, "one or two producer warps a row tile");
  static_assert(W % RT == 0, "warps are a multiple of the row tiles");
  static_assert(W / RT == 2 || W / RT == 4 || W / RT == 8 || W / RT == 16, "value slices are 2, 4, 8 or 16");
  static_assert(W >= QS * RT, "every row tile has its producers");

  static constexpr int threads = 32 * W;
  static constexpr int rows = 16 * RT;
  static constexpr int producers = QS * RT;
  static constexpr int tiles = 32 / (W / RT);  // n8 tiles of a warp's value slice
  static constexpr int score_tiles = Bc / QS / 8;
  static constexpr int p_chunks = Bc / 8;  // 16-byte chunks of a row of P

  static constexpr int q_at = 0;
  static constexpr int k_at = q_at + rows * 256;
  static constexpr int code_at = k_at + Bc * 256;
  static constexpr int v_at = code_at + Bc * 256;
  static constexpr int p_at = v_at + Bc * 512;
  static constexpr int alpha_at = p_at + rows * Bc * 2;
  static constexpr int key_scale_at = alpha_at + rows * 4;
  static constexpr int value_scale_at = key_scale_at + Bc * 8;
  static constexpr int peer_at = value_scale_at + Bc * 16;
  static constexpr int shared_bytes = peer_at + (QS == 2 ? rows * 8 : 0);

  static constexpr int key_units = Bc * 16;  // of 16 codes
  static constexpr int unit_loads = (key_units + threads - 1) / threads;
  static constexpr int value_chunks = Bc * kv::value_bytes(C) / 16;
  static constexpr int value_loads = (value_chunks + threads - 1) / threads;
  static constexpr int key_scale_chunks = Bc / 2;
  static constexpr int scale_chunks = key_scale_chunks + Bc * kv::value_scales(C) / 8;
  static constexpr int scale_loads = (scale_chunks + threads - 1) / threads;
  using Unit = typename kv::KeyUnit<C>::type;

  float acc[tiles][4] = {};
  float max_low = -INFINITY, max_high = -INFINITY;  // of rows g and g + 8, producers only
  float sum_low = 0.0f, sum_high = 0.0f;            // this lane's share

  unsigned char* shared;
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  float q_scale[2];                                 // of rows g and g + 8, 64-dim group lane % 4, producers only
  Unit keys[kv::packed_keys(C) || Early ? unit_loads : 1];
  uint4 values[Early ? value_loads : 1];
  uint4 scales[Early ? scale_loads : 1];

  __device__ __forceinline__ explicit Tile(unsigned char* arena) : shared(arena) {}

  static __device__ __forceinline__ int swizzled_p(int row, int chunk) {
    return row * (Bc * 2) + ((chunk ^ (Bc == 32 ? row >> 1 & 3 : row & 7)) << 4);
  }

  static __device__ __forceinline__ Unit load_unit(const unsigned char* from) {
    if constexpr (sizeof(Unit) == 16) {
      return load_once_16(from);
    } else if constexpr (sizeof(Unit) == 8) {
      return load_once_8(from);
    } else {
      return load_once_4(from);
    }
  }

  // Start row of block `block` in all planes.
  static __device__ __forceinline__ long long block_row(const Cache& cache, int head, int page, int block) {
    return kv::page_row(page, head) + block * Bc % kv::page_tokens;
  }

  __device__ __forceinline__ void copy_keys(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    const unsigned char* from = cache.key_codes + row * kv::key_bytes(C);
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      const int unit = thread + i * threads;
      if (key_units % threads != 0 && unit >= key_units) break;
      const int key = unit / 16;
      cp_async_cg(shared + k_at + key * 256 + ((unit % 16 ^ (key & 7)) << 4), from + unit * 16);
    }
  }

  __device__ __forceinline__ void fetch_keys(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    const unsigned char* from = cache.key_codes + row * kv::key_bytes(C);
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      const int unit = thread + i * threads;
      if (key_units % threads != 0 && unit >= key_units) break;
      keys[i] = load_unit(from + unit * static_cast<int>(sizeof(Unit)));
    }
  }

  __device__ __forceinline__ void store_keys() {
    const int thread = fresh(threadIdx.x);
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      const int unit = thread + i * threads;
      if (key_units % threads != 0 && unit >= key_units) break;
      const int key = unit / 16;
      *reinterpret_cast<uint4*>(shared + k_at + key * 256 + ((unit % 16 ^ (key & 7)) << 4)) =
          kv::expand_keys<C>(keys[i]);
    }
  }

  static __device__ __forceinline__ const unsigned char* scale_source(const Cache& cache, long long row, int chunk) {
    return chunk < key_scale_chunks
               ? reinterpret_cast<const unsigned char*>(cache.key_scales + row * 4) + chunk * 16
               : reinterpret_cast<const unsigned char*>(cache.value_scales + row * kv::value_scales(C)) +
                     (chunk - key_scale_chunks) * 16;
  }

  __device__ __forceinline__ void copy_values(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    const unsigned char* from = cache.value_codes + row * kv::value_bytes(C);
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      const int chunk = thread + i * threads;
      if (value_chunks % threads != 0 && chunk >= value_chunks) break;
      cp_async_cg(shared + code_at + chunk * 16, from + chunk * 16);
    }
    // Key scales end where value scales begin, so one index runs over both.
#pragma unroll
    for (int i = 0; i < scale_loads; ++i) {
      const int chunk = thread + i * threads;
      if (chunk < scale_chunks) cp_async_cg(shared + key_scale_at + chunk * 16, scale_source(cache, row, chunk));
    }
  }

  __device__ __forceinline__ void fetch_values(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    const unsigned char* from = cache.value_codes + row * kv::value_bytes(C);
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      const int chunk = thread + i * threads;
      if (value_chunks % threads != 0 && chunk >= value_chunks) break;
      values[i] = load_once_16(from + chunk * 16);
    }
#pragma unroll
    for (int i = 0; i < scale_loads; ++i) {
      const int chunk = thread + i * threads;
      if (chunk < scale_chunks) scales[i] = load_once_16(scale_source(cache, row, chunk));
    }
  }

  __device__ __forceinline__ void store_values() {
    const int thread = fresh(threadIdx.x);
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      const int chunk = thread + i * threads;
      if (value_chunks % threads != 0 && chunk >= value_chunks) break;
      *reinterpret_cast<uint4*>(shared + code_at + chunk * 16) = values[i];
    }
#pragma unroll
    for (int i = 0; i < scale_loads; ++i) {
      const int chunk = thread + i * threads;
      if (chunk < scale_chunks) *reinterpret_cast<uint4*>(shared + key_scale_at + chunk * 16) = scales[i];
    }
  }

  // Rotate and quantise the query rows; scales lie in the tile of P until the first block is scored.
  __device__ __forceinline__ void stage_queries(const Rows& rows_in) {
    float* row_scales = reinterpret_cast<float*>(shared + p_at);
    constexpr int batch = rows / W < 4 ? (rows + W - 1) / W : 4;  // rows whose loads are under way together
#pragma unroll 1
    for (int first = warp; first < rows; first += batch * W) {
      uint4 raw[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int row = first + i * W;
        const int packed = rows_in.first + row;
        const int head = rows_in.first_head + packed % Group;
        const long long at = (static_cast<long long>(packed / Group) * query_heads + head) * kv::dims + lane * 8;
        raw[i] = row < rows_in.count ? *reinterpret_cast<const uint4*>(rows_in.q + at) : make_uint4(0u, 0u, 0u, 0u);
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int row = first + i * W;
        if (rows % (batch * W) != 0 && row >= rows) break;
        uint2 codes = make_uint2(0u, 0u);
        float scale = 0.0f;
        if (row < rows_in.count) codes = quantise_query(raw[i], lane, scale);
        const int chunk = lane / 2 ^ (row & 7);
        *reinterpret_cast<uint2*>(shared + q_at + row * 256 + chunk * 16 + lane % 2 * 8) = codes;
        if (lane % 8 == 0) row_scales[row * 4 + lane / 8] = scale * softmax_scale;
      }
    }
  }

  __device__ __forceinline__ void take_query_scales() {
    const float* row_scales = reinterpret_cast<const float*>(shared + p_at);
    const float* own = row_scales + (warp % RT * 16 + lane / 4) * 4 + lane % 4;
    q_scale[0] = own[0];
    q_scale[1] = own[32];
  }

  // Score this producer's keys, update m and l, write P and alpha. Keys outside [low, high) and at or past a row's
  // `visible` count are masked when `masked`.
  __device__ __forceinline__ void score(int first_key, bool masked, int low, int high_a, int high_b) {
    const int lane = fresh(this->lane);
    const int warp = fresh(this->warp);
    const int row_tile = warp % RT;
    const int half = warp / RT;
    const int key_offset = half * (Bc / QS);
    float s[score_tiles][4] = {};
    // Unrolled, the compiler loads all groups of Q and K ahead and runs out of registers.
#pragma unroll 1
    for (int g = 0; g < 4; ++g) {
      unsigned a[2][4];
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const int row = row_tile * 16 + (lane & 15);
        const int chunk = g * 4 + step * 2 + lane / 16;
        ldmatrix_x4(a[step], shared + q_at + row * 256 + ((chunk ^ (row & 7)) << 4));
      }
      const float q_top = __shfl_sync(0xFFFFFFFFu, q_scale[0], (lane & 28) + g);
      const float q_bottom = __shfl_sync(0xFFFFFFFFu, q_scale[1], (lane & 28) + g);
#pragma unroll
      for (int tile = 0; tile < score_tiles; ++tile) {
        const __half* key_scale = reinterpret_cast<const __half*>(shared + key_scale_at) +
                                  (key_offset + tile * 8 + lane % 4 * 2) * 4 + g;
        const float even = __half2float(key_scale[0]);
        const float odd = __half2float(key_scale[4]);
        const int key = key_offset + tile * 8 + (lane & 7);
        unsigned b[4];
        ldmatrix_x4(b, shared + k_at + key * 256 + ((g * 4 + lane / 8 ^ (key & 7)) << 4));
        // |dot| < 2^22, so sums that start at 1.5 x 2^23 as bits read as that float plus the dot.
        int dot[4] = {0x4B400000, 0x4B400000, 0x4B400000, 0x4B400000};
        mma_s8_16832(dot, a[0], b[0], b[1]);
        mma_s8_16832(dot, a[1], b[2], b[3]);
        s[tile][0] += q_top * even * (__int_as_float(dot[0]) - 12582912.0f);
        s[tile][1] += q_top * odd * (__int_as_float(dot[1]) - 12582912.0f);
        s[tile][2] += q_bottom * even * (__int_as_float(dot[2]) - 12582912.0f);
        s[tile][3] += q_bottom * odd * (__int_as_float(dot[3]) - 12582912.0f);
      }
    }
    if (masked) {
#pragma unroll
      for (int tile = 0; tile < score_tiles; ++tile) {
        const int key = first_key + key_offset + tile * 8 + lane % 4 * 2;
        if (key < low || key >= high_a) s[tile][0] = -INFINITY;
        if (key + 1 < low || key + 1 >= high_a) s[tile][1] = -INFINITY;
        if (key < low || key >= high_b) s[tile][2] = -INFINITY;
        if (key + 1 < low || key + 1 >= high_b) s[tile][3] = -INFINITY;
      }
    }
    float top = max_low;
    float bottom = max_high;
#pragma unroll
    for (int tile = 0; tile < score_tiles; ++tile) {
      top = fmaxf(top, fmaxf(s[tile][0], s[tile][1]));
      bottom = fmaxf(bottom, fmaxf(s[tile][2], s[tile][3]));
    }
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, offset));
      bottom = fmaxf(bottom, __shfl_xor_sync(0xFFFFFFFFu, bottom, offset));
    }
    const int row = row_tile * 16 + lane / 4;
    if constexpr (QS == 2) {
      float* peer = reinterpret_cast<float*>(shared + peer_at);
      if (lane % 4 == 0) {
        peer[half * rows + row] = top;
        peer[half * rows + row + 8] = bottom;
      }
      named_barrier(1 + row_tile, 64);
      top = fmaxf(top, peer[(1 - half) * rows + row]);
      bottom = fmaxf(bottom, peer[(1 - half) * rows + row + 8]);
    }
    // A row that has seen no key keeps m = -inf; its exponents are taken against 0 and vanish.
    const float base_top = top == -INFINITY ? 0.0f : top * log2e;
    const float base_bottom = bottom == -INFINITY ? 0.0f : bottom * log2e;
    const float alpha_top = exp2_fast(max_low * log2e - base_top);
    const float alpha_bottom = exp2_fast(max_high * log2e - base_bottom);
    max_low = top;
    max_high = bottom;
    sum_low *= alpha_top;
    sum_high *= alpha_bottom;
    if (half == 0 && lane % 4 == 0) {
      float* alpha = reinterpret_cast<float*>(shared + alpha_at);
      alpha[row] = alpha_top;
      alpha[row + 8] = alpha_bottom;
    }
#pragma unroll
    for (int tile = 0; tile < score_tiles; ++tile) {
      const float p0 = exp2_fast(s[tile][0] * log2e - base_top);
      const float p1 = exp2_fast(s[tile][1] * log2e - base_top);
      const float p2 = exp2_fast(s[tile][2] * log2e - base_bottom);
      const float p3 = exp2_fast(s[tile][3] * log2e - base_bottom);
      sum_low += p0 + p1;
      sum_high += p2 + p3;
      const int chunk = key_offset / 8 + tile;
      *reinterpret_cast<__half2*>(shared + p_at + swizzled_p(row, chunk) + lane % 4 * 4) = __floats2half2_rn(p0, p1);
      *reinterpret_cast<__half2*>(shared + p_at + swizzled_p(row + 8, chunk) + lane % 4 * 4) =
          __floats2half2_rn(p2, p3);
    }
  }

  // Decode the block's values, one key a warp at a time. Keys at or past `high` become zeros: the cache behind the
  // last token may hold anything, and P = 0 does not silence a NaN.
  __device__ __forceinline__ void decode_values(int first_warp, int first_key, int high) {
    const int step = W - first_warp;
    const int lane = fresh(this->lane);
#pragma unroll 2
    for (int key = warp - first_warp; key < Bc; key += step) {
      const __half* scale_row = reinterpret_cast<const __half*>(shared + value_scale_at) + key * kv::value_scales(C);
      const __half own = scale_row[lane / (32 / kv::value_scales(C))];
      const __half2 scale = __half2half2(first_key + key < high ? own : __ushort_as_half(0));
      uint4 decoded;
      if constexpr (C == kv::int8) {
        decoded = kv::decode_bytes(*reinterpret_cast<const uint2*>(shared + code_at + key * 256 + lane * 8), scale);
      } else {
        decoded = kv::decode_nibbles(*reinterpret_cast<const unsigned*>(shared + code_at + key * 128 + lane * 4), scale);
      }
      *reinterpret_cast<uint4*>(shared + v_at + key * 512 + ((lane ^ (key & 7)) << 4)) = decoded;
    }
  }

  // acc = alpha acc + P V over the block.
  __device__ __forceinline__ void multiply_values() {
    const int lane = fresh(this->lane);
    const int warp = fresh(this->warp);
    const int row_tile = warp % RT;
    const int slice = warp / RT;
    const float* alpha = reinterpret_cast<const float*>(shared + alpha_at) + row_tile * 16 + lane / 4;
    const float top = alpha[0];
    const float bottom = alpha[8];
    unsigned p[Bc / 16][4];
#pragma unroll
    for (int step = 0; step < Bc / 16; ++step) {
      ldmatrix_x4(p[step], shared + p_at + swizzled_p(row_tile * 16 + (lane & 15), step * 2 + lane / 16));
    }
#pragma unroll
    for (int pair = 0; pair < tiles / 2; ++pair) {
      unsigned block[2][2] = {};
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        float(&c)[4] = acc[pair * 2 + t];
        c[0] *= top;
        c[1] *= top;
        c[2] *= bottom;
        c[3] *= bottom;
      }
#pragma unroll
      for (int step = 0; step < Bc / 16; ++step) {
        const int key = step * 16 + (lane & 15);
        const int chunk = slice * tiles + pair * 2 + lane / 16;
        unsigned v[4];
        ldmatrix_x4_trans(v, shared + v_at + key * 512 + ((chunk ^ (key & 7)) << 4));
        if constexpr (PvF16) {
          mma_f16_16816_f16(block[0], p[step], v[0], v[1]);
          mma_f16_16816_f16(block[1], p[step], v[2], v[3]);
        } else {
          mma_f16_16816(acc[pair * 2], p[step], v[0], v[1]);
          mma_f16_16816(acc[pair * 2 + 1], p[step], v[2], v[3]);
        }
      }
      if constexpr (PvF16) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          float(&c)[4] = acc[pair * 2 + t];
          const float2 upper = __half22float2(kv::bits_half2(block[t][0]));
          const float2 lower = __half22float2(kv::bits_half2(block[t][1]));
          c[0] += upper.x;
          c[1] += upper.y;
          c[2] += lower.x;
          c[3] += lower.y;
        }
      }
    }
  }

  // Sweep keys [low, high) of KV head `head`; high_a and high_b are the visible keys of this lane's rows g and g + 8 of
  // its row tile, first_visible the fewest of any row in use. Needs low < high.
  __device__ __forceinline__ void sweep(const Cache& cache, const Rows& rows_in, int head, int low, int high, int high_a,
                                        int high_b, int first_visible) {
    int block = low / Bc;
    const int last = (high - 1) / Bc;
    int page = cache.pages[block * Bc / kv::page_tokens];
    int next_page = cache.pages[min(block + 1, last) * Bc / kv::page_tokens];
    {
      const long long row = block_row(cache, head, page, block);
      if constexpr (kv::packed_keys(C)) {
        fetch_keys(cache, row);
      } else {
        copy_keys(cache, row);
      }
      copy_values(cache, row);
      cp_async_commit();
    }
    stage_queries(rows_in);
    __syncthreads();
    if (warp < producers) take_query_scales();
    high_a = min(high_a, high);
    high_b = min(high_b, high);
    bool first = true;
#pragma unroll 1
    for (; block <= last; ++block) {
      const bool more = block < last;
      if constexpr (Early) {
        if (!first) {
          store_values();
          if constexpr (!kv::packed_keys(C)) store_keys();
        }
        first = false;
      }
      if constexpr (kv::packed_keys(C)) store_keys();
      cp_async_wait<0>();
      __syncthreads();
      const long long row = block_row(cache, head, next_page, block + 1);
      next_page = cache.pages[min(block + 2, last) * Bc / kv::page_tokens];
      if (more) {
        if constexpr (kv::packed_keys(C) || Early) fetch_keys(cache, row);
        if constexpr (Early) fetch_values(cache, row);
      }
      const int first_key = block * Bc;
      const bool masked = first_key < low || first_key + Bc > min(high, first_visible);
      if constexpr (W == producers) {
        decode_values(0, first_key, high);
        score(first_key, masked, low, high_a, high_b);
      } else if (warp < producers) {
        score(first_key, masked, low, high_a, high_b);
      } else {
        decode_values(producers, first_key, high);
      }
      __syncthreads();
      if constexpr (!Early) {
        if (more) {
          if constexpr (!kv::packed_keys(C)) copy_keys(cache, row);
          copy_values(cache, row);
          cp_async_commit();
        }
      }
      multiply_values();
    }
  }

  // l of this producer's rows over its quad; with QS = 2 over its own half of the keys.
  __device__ __forceinline__ void reduce_sums() {
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
      sum_low += __shfl_xor_sync(0xFFFFFFFFu, sum_low, offset);
      sum_high += __shfl_xor_sync(0xFFFFFFFFu, sum_high, offset);
    }
    if constexpr (QS == 2) {
      float* peer = reinterpret_cast<float*>(shared + peer_at);
      const int row = warp % RT * 16 + lane / 4;
      const int half = warp / RT;
      if (half == 1 && lane % 4 == 0) {
        peer[rows + row] = sum_low;
        peer[rows + row + 8] = sum_high;
      }
      named_barrier(1 + warp % RT, 64);
      if (half == 0) {
        sum_low += peer[rows + row];
        sum_high += peer[rows + row + 8];
      }
    }
  }
};

}  // namespace attn
