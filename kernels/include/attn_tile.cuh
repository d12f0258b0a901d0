// The sweep of one CTA over a range of keys for several row tiles: the small-T kernel with three tokens or more, and the
// standard prompt kernel. One row tile has a sweep of its own, attn_split.cuh.
//
//   out[row] = sum_j p_j V_j, p_j = exp(0.0625 q.k_j - m), m = running maximum, l = sum_j p_j (before rounding)
//
// Rows are (token, query head) pairs of one KV head, in 16-row tiles: packed row R is token R / Group, head
// first_head + R % Group. Q is rotated by H256 and quantised to int8 per row and 64 dims; K codes are expanded to an
// int8 tile; V codes are decoded to an FP16 tile (code x scale, one rounding), once for all row tiles; P is rounded to FP16.
//
// Row tile t is scored by warps t, t + RT (QS = 2: half of a block's keys each) while the other warps decode V; then
// every warp multiplies P by V for row tile warp % RT and a slice of 256 / (W / RT) value dims. Two CTA barriers a
// block. One K/V stage: the next block is copied after the first product, or (Early) held in registers from the top
// of the block.
//
// A producer is one warp with some hundred dependent instructions a block, so on parts with more bandwidth an SM than the
// split count (at most 85) can draw, its latency is most of the time of a block. Tried on an H200 and dropped, all within
// 5 % or worse: prefetching the block after next into the L2, turning the warp roles from CTA to CTA, scoring two or four
// groups at a time, scoring key tile by key tile with Q in registers, decoding four keys at a time; for two and three row
// tiles the sweep of attn_split.cuh, whose warps decode V again for every row tile: 5 to 24 % slower.
//
// K and V tiles are XOR-swizzled in 16-byte chunks by the row's low bits: padding would not leave RT 3 under 48 KiB. P lies
// as the A fragments of P V, which are what a producer's lanes hold.
#pragma once
#include "attn_query.cuh"
#include "cp_async.cuh"
#include "kv_codes.cuh"
#include "mma.cuh"

namespace attn {

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
  static constexpr int query_batch = rows / W < 4 ? (rows + W - 1) / W : 4;  // rows of a warp loaded together
  using Unit = typename kv::KeyUnit<C>::type;

  float acc[tiles][4] = {};
  float max_low = -INFINITY, max_high = -INFINITY;  // of rows g and g + 8, producers only
  float sum_low = 0.0f, sum_high = 0.0f;            // this lane's share

  unsigned char* shared;
  unsigned arena;  // `shared` as an address of cp.async
  int warp;
  int lane = threadIdx.x % 32;
  float q_scale[2];  // of rows g and g + 8, 64-dim group lane % 4, producers only
  Unit keys[kv::packed_keys(C) || Early ? unit_loads : 1];
  uint4 values[Early ? value_loads : 1];
  uint4 scales[Early ? scale_loads : 1];
  uint4 raw[query_batch];  // query rows

  __device__ __forceinline__ explicit Tile(unsigned char* memory)
      : shared(memory),
        arena(static_cast<unsigned>(__cvta_generic_to_shared(memory))),
        warp(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0)) {}

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
    return kv::page_row(page, head) + static_cast<unsigned>(block) * Bc % kv::page_tokens;
  }

  // Where a thread's first unit of keys lies; the i-th is i * threads / 16 keys further, and 8 keys keep the swizzle.
  static constexpr bool even_units = threads / 16 % 8 == 0;
  static __device__ __forceinline__ int key_place(int unit) {
    return unit / 16 * 256 + ((unit % 16 ^ (unit / 16 & 7)) << 4);
  }
  static __device__ __forceinline__ int key_place_of(int thread, int i) {
    return even_units ? key_place(thread) + i * (threads / 16 * 256) : key_place(thread + i * threads);
  }

  __device__ __forceinline__ void copy_keys(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    const unsigned char* from = cache.key_codes + row * kv::key_bytes(C) + static_cast<unsigned>(thread) * 16;
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      if (key_units % threads != 0 && thread + i * threads >= key_units) break;
      cp_async_cg_at(arena + k_at + key_place_of(thread, i), from + i * threads * 16);
    }
  }

  __device__ __forceinline__ void fetch_keys(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    constexpr int size = static_cast<int>(sizeof(Unit));
    const unsigned char* from = cache.key_codes + row * kv::key_bytes(C) + static_cast<unsigned>(thread) * size;
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      if (key_units % threads != 0 && thread + i * threads >= key_units) break;
      keys[i] = load_unit(from + i * threads * size);
    }
  }

  __device__ __forceinline__ void store_keys() {
    const int thread = fresh(threadIdx.x);
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      if (key_units % threads != 0 && thread + i * threads >= key_units) break;
      *reinterpret_cast<uint4*>(shared + k_at + key_place_of(thread, i)) = kv::product_keys<C>(keys[i]);
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
    const unsigned char* from = cache.value_codes + row * kv::value_bytes(C) + static_cast<unsigned>(thread) * 16;
    const unsigned to = arena + code_at + thread * 16;
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      if (value_chunks % threads != 0 && thread + i * threads >= value_chunks) break;
      cp_async_cg_at(to + i * threads * 16, from + i * threads * 16);
    }
    // Key scales end where value scales begin, so one index runs over both.
#pragma unroll
    for (int i = 0; i < scale_loads; ++i) {
      const int chunk = thread + i * threads;
      if (chunk < scale_chunks) cp_async_cg_at(arena + key_scale_at + chunk * 16, scale_source(cache, row, chunk));
    }
  }

  __device__ __forceinline__ void fetch_values(const Cache& cache, long long row) {
    const int thread = fresh(threadIdx.x);
    const unsigned char* from = cache.value_codes + row * kv::value_bytes(C) + static_cast<unsigned>(thread) * 16;
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      if (value_chunks % threads != 0 && thread + i * threads >= value_chunks) break;
      values[i] = load_once_16(from + i * threads * 16);
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

  // Fetch this warp's query rows from `first` on; the first ones come before the sweep, while nothing else is known.
  __device__ __forceinline__ void fetch_queries(const Rows& rows_in, int first) {
#pragma unroll
    for (int i = 0; i < query_batch; ++i) {
      const int row = first + i * W;
      const int packed = rows_in.first + row;
      const int head = rows_in.first_head + packed % Group;
      const long long at = (static_cast<long long>(packed / Group) * query_heads + head) * kv::dims + lane * 8;
      raw[i] = row < rows_in.count ? *reinterpret_cast<const uint4*>(rows_in.q + at) : make_uint4(0u, 0u, 0u, 0u);
    }
  }

  // Rotate and quantise the query rows, the first of them fetched; scales lie in the tile of P until the first block is scored.
  __device__ __forceinline__ void stage_queries(const Rows& rows_in) {
    float* row_scales = reinterpret_cast<float*>(shared + p_at);
#pragma unroll 1
    for (int first = warp; first < rows; first += query_batch * W) {
      if (first >= query_batch * W) fetch_queries(rows_in, first);
#pragma unroll
      for (int i = 0; i < query_batch; ++i) {
        const int row = first + i * W;
        if (rows % (query_batch * W) != 0 && row >= rows) break;
        uint2 codes = make_uint2(0u, 0u);
        float scale = 0.0f;
        if (row < rows_in.count) codes = product_query<C>(quantise_query(raw[i], lane, scale), scale);
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
    const int start[4] = {fresh(dot_start), fresh(dot_start), fresh(dot_start), fresh(dot_start)};
    const int row = row_tile * 16 + lane / 4;
    const unsigned char* key_scales = shared + key_scale_at + (key_offset + lane % 4 * 2) * 8;
    const int query_row = row_tile * 16 + (lane & 15);
    const int key_row = key_offset + (lane & 7);
    // Unrolled, the compiler loads all groups of Q and K ahead and runs out of registers.
#pragma unroll 1
    for (int g = 0; g < 4; ++g) {
      unsigned a[2][4];
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const int chunk = g * 4 + step * 2 + lane / 16;
        ldmatrix_x4(a[step], shared + q_at + query_row * 256 + ((chunk ^ (lane & 7)) << 4));
      }
      const float q_top = __shfl_sync(0xFFFFFFFFu, q_scale[0], (lane & 28) + g);
      const float q_bottom = __shfl_sync(0xFFFFFFFFu, q_scale[1], (lane & 28) + g);
      const unsigned char* keys_of_group = shared + k_at + key_row * 256 + ((g * 4 + lane / 8 ^ (lane & 7)) << 4);
#pragma unroll
      for (int tile = 0; tile < score_tiles; ++tile) {
        const __half* key_scale = reinterpret_cast<const __half*>(key_scales + tile * 64) + g;
        const float even = __half2float(key_scale[0]);
        const float odd = __half2float(key_scale[4]);
        unsigned b[4];
        ldmatrix_x4(b, keys_of_group + tile * 8 * 256);
        int dot[4];
        mma_s8_16832_from(dot, a[0], b[0], b[1], start);
        mma_s8_16832(dot, a[1], b[2], b[3]);
        s[tile][0] = __fmaf_rn(q_top * even, dot_value(dot[0]), s[tile][0]);
        s[tile][1] = __fmaf_rn(q_top * odd, dot_value(dot[1]), s[tile][1]);
        s[tile][2] = __fmaf_rn(q_bottom * even, dot_value(dot[2]), s[tile][2]);
        s[tile][3] = __fmaf_rn(q_bottom * odd, dot_value(dot[3]), s[tile][3]);
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
    uint4* to = reinterpret_cast<uint4*>(shared + p_at) + (row_tile * (Bc / 16) + key_offset / 16) * 32 + lane;
#pragma unroll
    for (int step = 0; step < score_tiles / 2; ++step) {
      unsigned fragment[4];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float(&from)[4] = s[2 * step + e];
        const float p0 = exp2_fast(from[0] * log2e - base_top);
        const float p1 = exp2_fast(from[1] * log2e - base_top);
        const float p2 = exp2_fast(from[2] * log2e - base_bottom);
        const float p3 = exp2_fast(from[3] * log2e - base_bottom);
        sum_low += p0 + p1;
        sum_high += p2 + p3;
        fragment[2 * e] = kv::half2_bits(__floats2half2_rn(p0, p1));
        fragment[2 * e + 1] = kv::half2_bits(__floats2half2_rn(p2, p3));
      }
      to[step * 32] = make_uint4(fragment[0], fragment[1], fragment[2], fragment[3]);
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
    const bool changed = __any_sync(0xFFFFFFFFu, top != 1.0f || bottom != 1.0f);
    unsigned p[Bc / 16][4];
#pragma unroll
    for (int step = 0; step < Bc / 16; ++step) {
      const uint4 from = reinterpret_cast<const uint4*>(shared + p_at)[(row_tile * (Bc / 16) + step) * 32 + lane];
      p[step][0] = from.x;
      p[step][1] = from.y;
      p[step][2] = from.z;
      p[step][3] = from.w;
    }
    if (changed) {
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        acc[t][0] *= top;
        acc[t][1] *= top;
        acc[t][2] *= bottom;
        acc[t][3] *= bottom;
      }
    }
#pragma unroll
    for (int pair = 0; pair < tiles / 2; ++pair) {
      unsigned block[2][2] = {};
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

  // Sweep keys [low, high) of KV head `head`, after `fetch_queries`; high_a and high_b are the visible keys of this lane's rows
  // g and g + 8 of its row tile, first_visible the fewest of any row in use. Needs low < high.
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

  // Store the sums of row g (half 0) or g + 8 to the 256 floats of its row.
  __device__ __forceinline__ void store(float* row, int half) const {
    float* to = row + warp / RT * tiles * 8 + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      *reinterpret_cast<float2*>(to + t * 8) = make_float2(acc[t][half * 2], acc[t][half * 2 + 1]);
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
