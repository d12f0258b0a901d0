// The sweep of one CTA over the keys of one split for one row tile: the 6 or 12 query rows of one or two tokens.
//
//   out[row] = sum_j p_j V_j, p_j = exp(0.0625 q.k_j - m), m = running maximum, l = sum_j p_j (before rounding)
//
// Warp 0 scores the keys of a block (QS = 2: warps 0 and 1, half of them each); every warp multiplies P by V for a slice of
// 256 / W value dims. The two overlap: while block i + 1 is scored, the other warps expand the packed keys of block i + 2,
// and all multiply block i. So K, P and alpha have two stages, V has three, and a block has one CTA barrier.
//
// K and P never move between lanes: key 4 l + 2 e + b of 16 is column 2 l + b of n8 tile e, which makes a lane's scores its
// own A fragment of P V, and along k lane l holds chunk l of a 64-dim group, in Q as in K (integer sums know no order).
// V is decoded from its codes to FP16 in the registers of the warp that multiplies it: column g of tile t is dim
// g * tiles + t of the warp's slice. With more row tiles each of them would decode it again: attn_tile.cuh.
//
// Loads by cp.async: keys of 8 bits by the warp that scores them, as soon as it has scored the block two before, values by
// the other warps two blocks ahead. Packed keys come through registers. Early: everything through registers, fetched by
// all threads at the top of a block and stored at its end, one block ahead.
#pragma once
#include "attn_query.cuh"
#include "cp_async.cuh"
#include "kv_codes.cuh"
#include "mma.cuh"

namespace attn {

template <kv::Coding C, int W, int Bc, int QS, bool Early, bool PvF16>
struct Split {
  static_assert(Bc == 32, "a key block is half a page");
  static_assert(QS == 1 || QS == 2, "one or two producer warps");
  static_assert(W == 2 || W == 4 || W == 8 || W == 16, "value slices are 2, 4, 8 or 16");

  static constexpr int threads = 32 * W;
  static constexpr int rows = 16;
  static constexpr int producers = QS;
  static constexpr int tiles = 32 / W;  // n8 tiles of a warp's value slice
  static constexpr int steps = Bc / 16;
  static constexpr int own_steps = steps / QS;  // of a producer
  static constexpr bool packed = kv::packed_keys(C);
  static constexpr bool code_tables = C == kv::rk2v4_e8;
  // Places are formed where they are used instead of being kept in registers.
  static constexpr bool tight = W >= 8;
  // Pairs of 64-dim groups whose loads a producer has under way; two where there are registers for them.
  static constexpr int pairs_ahead = tight || Early || (packed && QS == 1) ? 1 : 2;

  static constexpr int value_row = kv::value_bytes(C);
  static constexpr int value_scale_row = kv::value_scales(C) * 2;
  static constexpr int k_bytes = Bc * 256;
  static constexpr int v_bytes = Bc * value_row;
  static constexpr int p_bytes = rows * Bc * 2;
  static constexpr int v_at = 2 * k_bytes;
  static constexpr int p_at = v_at + 3 * v_bytes;
  static constexpr int q_at = p_at + 2 * p_bytes;
  static constexpr int q_scale_at = q_at + rows * 256;
  static constexpr int alpha_at = q_scale_at + rows * 16;
  static constexpr int key_scale_at = alpha_at + 2 * rows * 4;
  static constexpr int value_scale_at = key_scale_at + 2 * Bc * 8;
  static constexpr int peer_at = value_scale_at + 3 * Bc * value_scale_row;
  static constexpr int table_at = peer_at + (QS == 2 ? rows * 8 : 0);
  static constexpr int shared_bytes = table_at + (code_tables ? static_cast<int>(sizeof(kv::RadiusTable)) + 1024 : 0);

  static constexpr int helpers = W > producers ? W - producers : W;  // the last warps: they load values, expand keys
  static constexpr int key_units = Bc * 16;                          // of 16 codes
  static constexpr int key_threads = packed ? 32 * helpers : threads;
  static constexpr int unit_loads = (key_units + key_threads - 1) / key_threads;
  static constexpr int value_chunks = v_bytes / 16;
  static constexpr int value_loads = value_chunks / threads > 0 ? value_chunks / threads : 1;
  static constexpr int value_scale_chunks = Bc * value_scale_row / 16;
  static constexpr int query_batch = rows / W < 4 ? rows / W : 4;  // rows of a warp loaded together
  using Unit = typename kv::KeyUnit<C>::type;

  float acc[tiles][4] = {};
  float max_low = -INFINITY, max_high = -INFINITY;  // of rows g and g + 8, producers only
  float sum_low = 0.0f, sum_high = 0.0f;            // this lane's share

  unsigned char* shared;
  unsigned arena;  // `shared` as an address of cp.async
  Cache cache;
  int head;
  int warp;
  int lane = threadIdx.x % 32;
  int key_to;  // place of this thread's first unit of keys
  Unit keys[packed || Early ? unit_loads : 1];
  uint4 values[Early ? value_loads : 1];
  uint4 value_scale;  // Early only
  uint4 raw[query_batch];  // query rows

  __device__ __forceinline__ explicit Split(unsigned char* memory)
      : shared(memory),
        arena(static_cast<unsigned>(__cvta_generic_to_shared(memory))),
        warp(__shfl_sync(0xFFFFFFFFu, threadIdx.x / 32, 0)),
        key_to(key_place(key_thread())) {}

  // `x`, from which a place is derived.
  static __device__ __forceinline__ int placed(int x) { return tight ? fresh(x) : x; }
  static __device__ __forceinline__ int k_at(int block) { return (block & 1) * k_bytes; }

  static __device__ __forceinline__ Unit load_unit(const unsigned char* from) {
    if constexpr (sizeof(Unit) == 16) {
      return load_once_16(from);
    } else if constexpr (sizeof(Unit) == 8) {
      return load_once_8(from);
    } else {
      return load_once_4(from);
    }
  }

  // First row of block `block`, which lies in physical page `page`, in all planes.
  __device__ __forceinline__ long long block_row(int page, int block) const {
    return kv::page_row(page, head) + static_cast<unsigned>(block) * Bc % kv::page_tokens;
  }

  // Where a 16-code unit of keys and a 16-byte chunk of values lie in their stage.
  static __device__ __forceinline__ int key_place(int unit) {
    const int key = unit / 16;
    return key * 256 + ((unit % 16 ^ (key & 1) << 2) << 4);
  }
  static __device__ __forceinline__ int value_place(int chunk) {
    constexpr int row_chunks = value_row / 16;
    const int key = chunk / row_chunks;
    return key * value_row + ((chunk % row_chunks ^ (key >> 2 & 3) << 1) << 4);
  }

  // Where this thread's i-th unit lies: units advance by an even number of keys.
  __device__ __forceinline__ int key_place_of(int i) const {
    return (tight ? key_place(placed(key_thread())) : key_to) + i * (key_threads / 16 * 256);
  }

  __device__ __forceinline__ const unsigned char* key_scale_source(long long row, int chunk) const {
    return reinterpret_cast<const unsigned char*>(cache.key_scales + row * 4) + chunk * 16;
  }
  __device__ __forceinline__ const unsigned char* value_scale_source(long long row, int chunk) const {
    return reinterpret_cast<const unsigned char*>(cache.value_scales) + row * value_scale_row + chunk * 16;
  }

  // Copy this producer's keys; their scales.
  __device__ __forceinline__ void copy_keys(long long row, int block) {
    const int lane = placed(this->lane);
    const int first_key = warp * own_steps * 16;
    const unsigned char* from = cache.key_codes + (row + first_key) * 256 + lane * 16;
    const unsigned to = arena + k_at(block) + key_place(first_key * 16 + lane);
#pragma unroll
    for (int i = 0; i < own_steps * 8; ++i) cp_async_cg_at(to + i * 512, from + i * 512);
  }
  __device__ __forceinline__ void copy_key_scales(long long row, int block) {
    const int lane = placed(this->lane);
    const int first_key = warp * own_steps * 16;
    if (lane < own_steps * 8) {
      cp_async_cg_at(arena + key_scale_at + (block & 1) * Bc * 8 + first_key * 8 + lane * 16,
                     key_scale_source(row + first_key, lane));
    }
  }

  // Copy this helper's values and scales to `stage`: a warp takes every helpers-th 512 bytes.
  __device__ __forceinline__ void copy_values(long long row, int stage) {
    const int lane = placed(this->lane);
    const int helper = warp - (W - helpers);
    constexpr int pieces = v_bytes / 512;
    constexpr int piece_keys = 512 / value_row;
    constexpr int row_chunks = value_row / 16;
    const unsigned char* from = cache.value_codes + row * value_row + helper * 512 + lane * 16;
    const unsigned to = arena + v_at + stage * v_bytes + lane / row_chunks * value_row;
#pragma unroll
    for (int i = 0; i < (pieces + helpers - 1) / helpers; ++i) {
      const int piece = helper + i * helpers;
      if (pieces % helpers != 0 && piece >= pieces) break;
      const int turned = (piece * piece_keys >> 2 & 3) << 1;
      cp_async_cg_at(to + piece * 512 + ((lane % row_chunks ^ turned) << 4), from + i * helpers * 512);
    }
    const int chunk = helper * 32 + lane;
    if (chunk < value_scale_chunks) {
      cp_async_cg_at(arena + value_scale_at + stage * Bc * value_scale_row + chunk * 16, value_scale_source(row, chunk));
    }
  }

  // This thread among those that fetch keys, negative if it does not.
  static __device__ __forceinline__ int key_thread() {
    return packed ? static_cast<int>(threadIdx.x) - (threads - key_threads) : static_cast<int>(threadIdx.x);
  }

  __device__ __forceinline__ void fetch_keys(long long row) {
    const int thread = key_thread();
    if (key_threads < threads && thread < 0) return;
    constexpr int size = static_cast<int>(sizeof(Unit));
    const unsigned char* from = cache.key_codes + row * kv::key_bytes(C) + static_cast<unsigned>(thread) * size;
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      if (key_units % key_threads != 0 && thread + i * key_threads >= key_units) break;
      keys[i] = load_unit(from + i * key_threads * size);
    }
  }

  __device__ __forceinline__ uint4 expanded(Unit unit) const {
    if constexpr (C == kv::rk2v4_e8) {
      const uint2* radius_words = reinterpret_cast<const uint2*>(shared + table_at);
      const unsigned* root_words = reinterpret_cast<const unsigned*>(shared + table_at + sizeof(kv::RadiusTable));
      const uint2 low = kv::e8_block(unit & 0xFFFFu, root_words, radius_words);
      const uint2 high = kv::e8_block(unit >> 16, root_words, radius_words);
      return make_uint4(low.x, low.y, high.x, high.y);
    } else {
      return kv::product_keys<C>(unit);
    }
  }

  __device__ __forceinline__ void store_keys(int stage) {
    const int thread = key_thread();
    if (key_threads < threads && thread < 0) return;
#pragma unroll
    for (int i = 0; i < unit_loads; ++i) {
      if (key_units % key_threads != 0 && thread + i * key_threads >= key_units) break;
      *reinterpret_cast<uint4*>(shared + k_at(stage) + key_place_of(i)) = expanded(keys[i]);
    }
  }

  __device__ __forceinline__ void fetch_values(long long row) {
    const unsigned char* from = cache.value_codes + row * value_row + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      if (value_chunks % threads != 0 && threadIdx.x + i * threads >= value_chunks) break;
      values[i] = load_once_16(from + i * threads * 16);
    }
    if (threadIdx.x < value_scale_chunks) value_scale = load_once_16(value_scale_source(row, threadIdx.x));
  }

  __device__ __forceinline__ void store_values(int stage) {
#pragma unroll
    for (int i = 0; i < value_loads; ++i) {
      if (value_chunks % threads != 0 && threadIdx.x + i * threads >= value_chunks) break;
      *reinterpret_cast<uint4*>(shared + v_at + stage * v_bytes + value_place(placed(threadIdx.x) + i * threads)) = values[i];
    }
    if (threadIdx.x < value_scale_chunks) {
      *reinterpret_cast<uint4*>(shared + value_scale_at + stage * Bc * value_scale_row + threadIdx.x * 16) =
          value_scale;
    }
  }

  // Fetch this warp's query rows from `first` on; the first ones need nothing of the call's positions.
  __device__ __forceinline__ void fetch_queries(const Rows& rows_in, int first) {
#pragma unroll
    for (int i = 0; i < query_batch; ++i) {
      const int row = first + i * W;
      const int packed_row = rows_in.first + row;
      const int query_head = rows_in.first_head + packed_row % group;
      const long long at = (static_cast<long long>(packed_row / group) * query_heads + query_head) * kv::dims + lane * 8;
      raw[i] = row < rows_in.count ? *reinterpret_cast<const uint4*>(rows_in.q + at) : make_uint4(0u, 0u, 0u, 0u);
    }
  }

  // Rotate and quantise the query rows, the first of them fetched, into A fragments: [group][k32 step][lane][4 words]. Lane l
  // of a quad holds chunk l of the group's four, two words of it a step.
  __device__ __forceinline__ void stage_queries(const Rows& rows_in) {
    float* row_scales = reinterpret_cast<float*>(shared + q_scale_at);
#pragma unroll 1
    for (int first = warp; first < rows; first += query_batch * W) {
      if (first >= query_batch * W) fetch_queries(rows_in, first);
#pragma unroll
      for (int i = 0; i < query_batch; ++i) {
        const int row = first + i * W;
        uint2 codes = make_uint2(0u, 0u);
        float scale = 0.0f;
        if (row < rows_in.count) codes = product_query<C>(quantise_query(raw[i], lane, scale), scale);
        scale *= softmax_scale;
        unsigned* own = reinterpret_cast<unsigned*>(
            shared + q_at + ((lane / 8 * 2 + lane % 2) * 32 + row % 8 * 4 + lane % 8 / 2) * 16 + row / 8 * 4);
        own[0] = codes.x;
        own[2] = codes.y;
        if (lane % 8 == 0) row_scales[row * 4 + lane / 8] = scale;
      }
    }
  }

  // Score block `block` for this producer's keys, update m and l, write P and alpha. Keys outside [low, high) and at or
  // past a row's `visible` count are masked when `masked`. Without `Both`, rows 8 to 15 hold no query and are left alone.
  template <bool Both>
  __device__ __forceinline__ void score(int block, bool masked, int low, int high_a, int high_b) {
    const int lane = placed(this->lane);
    const int warp = placed(this->warp);
    const int quad = lane / 4;
    const int column = lane % 4;
    const int half = warp;
    const int row = quad;
    const int first_step = half * own_steps;
    const int key_row = first_step * 16 + 2 * (quad & 6) + (quad & 1);
    const unsigned char* key_base = shared + k_at(block) + key_row * 256;
    const uint4* queries = reinterpret_cast<const uint4*>(shared + q_at) + lane;
    const int chunk = (quad & 1) * 64 + column * 16;  // of group 0; group g is 64 g bytes further, bit 6 inverted
    float s[2 * own_steps][4] = {};
    const int start[4] = {fresh(dot_start), fresh(dot_start), fresh(dot_start), fresh(dot_start)};
    const float* row_scales = reinterpret_cast<const float*>(shared + q_scale_at + row * 16);
    const unsigned char* key_scales =
        shared + key_scale_at + (block & 1) * Bc * 8 + (first_step * 16 + column * 4) * 8;
#pragma unroll pairs_ahead
    for (int turn = 0; turn < 4; turn += 2) {
      unsigned scales[own_steps][2][2];  // of keys 4 l .. 4 l + 3 of a step
#pragma unroll
      for (int i = 0; i < 4 * own_steps; ++i) {
        const unsigned char* from = key_scales + (i / 4 * 16 + i % 4) * 8 + turn * 2;
        scales[i / 4][i / 2 % 2][i % 2] = *reinterpret_cast<const unsigned*>(from);
      }
#pragma unroll
      for (int g = 0; g < 2; ++g) {
        const float top_scale = row_scales[turn + g];
        const float bottom_scale = row_scales[32 + turn + g];
        unsigned a[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint4 from = queries[((turn + g) * 2 + i) * 32];
          a[i][0] = from.x;
          a[i][1] = from.y;
          a[i][2] = from.z;
          a[i][3] = from.w;
        }
#pragma unroll
        for (int step = 0; step < own_steps; ++step) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const uint4 b =
                *reinterpret_cast<const uint4*>(key_base + (step * 16 + e * 2) * 256 + (chunk ^ turn + g << 6));
            const unsigned(&two)[2] = scales[step][e];
            const float even = g == 0 ? kv::low_half(two[0]) : kv::high_half(two[0]);
            const float odd = g == 0 ? kv::low_half(two[1]) : kv::high_half(two[1]);
            int dot[4];
            mma_s8_16832_from(dot, a[0], b.x, b.y, start);
            mma_s8_16832(dot, a[1], b.z, b.w);
            float(&to)[4] = s[2 * step + e];
            to[0] = __fmaf_rn(top_scale * even, dot_value(dot[0]), to[0]);
            to[1] = __fmaf_rn(top_scale * odd, dot_value(dot[1]), to[1]);
            if constexpr (Both) {
              to[2] = __fmaf_rn(bottom_scale * even, dot_value(dot[2]), to[2]);
              to[3] = __fmaf_rn(bottom_scale * odd, dot_value(dot[3]), to[3]);
            }
          }
        }
      }
    }
    if (masked) {
#pragma unroll
      for (int t = 0; t < 2 * own_steps; ++t) {
        const int key = block * Bc + first_step * 16 + t / 2 * 16 + column * 4 + t % 2 * 2;
        if (key < low || key >= high_a) s[t][0] = -INFINITY;
        if (key + 1 < low || key + 1 >= high_a) s[t][1] = -INFINITY;
        if (key < low || key >= high_b) s[t][2] = -INFINITY;
        if (key + 1 < low || key + 1 >= high_b) s[t][3] = -INFINITY;
      }
    }
    float top = max_low;
    float bottom = max_high;
#pragma unroll
    for (int t = 0; t < 2 * own_steps; ++t) {
      top = fmaxf(top, fmaxf(s[t][0], s[t][1]));
      if constexpr (Both) bottom = fmaxf(bottom, fmaxf(s[t][2], s[t][3]));
    }
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, offset));
      if constexpr (Both) bottom = fmaxf(bottom, __shfl_xor_sync(0xFFFFFFFFu, bottom, offset));
    }
    if constexpr (QS == 2) {
      float* peer = reinterpret_cast<float*>(shared + peer_at);
      if (column == 0) {
        peer[half * rows + row] = top;
        peer[half * rows + row + 8] = bottom;
      }
      named_barrier(1, 64);
      top = fmaxf(top, peer[(1 - half) * rows + row]);
      bottom = fmaxf(bottom, peer[(1 - half) * rows + row + 8]);
    }
    // A row that has seen no key keeps m = -inf; its exponents are taken against 0 and vanish.
    const float base_top = top == -INFINITY ? 0.0f : top * log2e;
    const float base_bottom = bottom == -INFINITY ? 0.0f : bottom * log2e;
    const float alpha_top = exp2_fast(max_low * log2e - base_top);
    const float alpha_bottom = Both ? exp2_fast(max_high * log2e - base_bottom) : 1.0f;
    max_low = top;
    max_high = bottom;
    sum_low *= alpha_top;
    sum_high *= alpha_bottom;
    if (half == 0 && column == 0) {
      float* alpha = reinterpret_cast<float*>(shared + alpha_at) + (block & 1) * rows;
      alpha[row] = alpha_top;
      alpha[row + 8] = alpha_bottom;
    }
    uint4* to = reinterpret_cast<uint4*>(shared + p_at + (block & 1) * p_bytes) + first_step * 32 + lane;
#pragma unroll
    for (int step = 0; step < own_steps; ++step) {
      unsigned fragment[4];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float(&from)[4] = s[2 * step + e];
        const float p0 = exp2_fast(from[0] * log2e - base_top);
        const float p1 = exp2_fast(from[1] * log2e - base_top);
        sum_low += p0 + p1;
        fragment[2 * e] = kv::half2_bits(__floats2half2_rn(p0, p1));
        fragment[2 * e + 1] = 0u;
        if constexpr (Both) {
          const float p2 = exp2_fast(from[2] * log2e - base_bottom);
          const float p3 = exp2_fast(from[3] * log2e - base_bottom);
          sum_high += p2 + p3;
          fragment[2 * e + 1] = kv::half2_bits(__floats2half2_rn(p2, p3));
        }
      }
      to[step * 32] = make_uint4(fragment[0], fragment[1], fragment[2], fragment[3]);
    }
  }

  // This lane's codes of one key: `tiles` bytes or nibbles.
  static constexpr int lane_bytes = tiles * value_row / 256;
  static constexpr int lane_words = lane_bytes < 4 ? 1 : lane_bytes / 4;
  static __device__ __forceinline__ void load_codes(unsigned (&word)[lane_words], const unsigned char* from) {
    if constexpr (lane_bytes == 16) {
      const uint4 w = *reinterpret_cast<const uint4*>(from);
      word[0] = w.x;
      word[1] = w.y;
      word[2] = w.z;
      word[3] = w.w;
    } else if constexpr (lane_bytes == 8) {
      const uint2 w = *reinterpret_cast<const uint2*>(from);
      word[0] = w.x;
      word[1] = w.y;
    } else if constexpr (lane_bytes == 4) {
      word[0] = *reinterpret_cast<const unsigned*>(from);
    } else if constexpr (lane_bytes == 2) {
      word[0] = *reinterpret_cast<const unsigned short*>(from);
    } else {
      word[0] = *from;
    }
  }

  // Give the values of keys at or past `high` in block `block` the scale 0: the cache behind the last token may hold
  // anything, and P = 0 does not silence a NaN.
  __device__ __forceinline__ void silence_values(int block, int stage, int high) {
    unsigned* scales = reinterpret_cast<unsigned*>(shared + value_scale_at + stage * Bc * value_scale_row);
    constexpr int words = value_scale_row / 4;
    for (int i = (high - block * Bc) * words + threadIdx.x; i < Bc * words; i += threads) scales[i] = 0u;
  }

  // acc = alpha acc + P V over block `block`, whose values are in `stage`.
  __device__ __forceinline__ void multiply_values(int block, int stage) {
    const int lane = placed(this->lane);
    const int warp = placed(this->warp);
    const int quad = lane / 4;
    const int column = lane % 4;
    const int slice = warp;
    const float* alpha = reinterpret_cast<const float*>(shared + alpha_at) + (block & 1) * rows + quad;
    const float top = alpha[0];
    const float bottom = alpha[8];
    if (__any_sync(0xFFFFFFFFu, top != 1.0f || bottom != 1.0f)) {
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        acc[t][0] *= top;
        acc[t][1] *= top;
        acc[t][2] *= bottom;
        acc[t][3] *= bottom;
      }
    }
    const int byte = slice * 8 * lane_bytes + quad * lane_bytes;
    const unsigned char* codes =
        shared + v_at + stage * v_bytes + column * 4 * value_row + ((byte / 16 ^ column << 1) << 4) + byte % 16;
    constexpr int scale_dims = kv::dims / kv::value_scales(C);
    const unsigned short* scales =
        reinterpret_cast<const unsigned short*>(shared + value_scale_at + stage * Bc * value_scale_row) +
        column * 4 * kv::value_scales(C) + (slice * 8 * tiles + quad * tiles) / scale_dims;
    const uint4* fragments = reinterpret_cast<const uint4*>(shared + p_at + (block & 1) * p_bytes) + lane;
    const unsigned byte_mask = fresh(0x00FF00FF);
    const unsigned low_mask = fresh(0x000F000F);
    const unsigned high_mask = fresh(0x00F000F0);
    unsigned sums[PvF16 ? tiles : 1][2] = {};
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const uint4 fragment = fragments[step * 32];
      const unsigned p[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
      unsigned word[4][lane_words];
      unsigned scale[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        load_codes(word[j], codes + (step * 16 + j) * value_row);
        scale[j] = scales[(step * 16 + j) * kv::value_scales(C)];
      }
      const unsigned low = __byte_perm(scale[0], scale[1], 0x5410u);
      const unsigned up = __byte_perm(scale[2], scale[3], 0x5410u);
      const auto product = [&](int t, unsigned b0, unsigned b1) {
        if constexpr (PvF16) {
          mma_f16_16816_f16(sums[t], p, b0, b1);
        } else {
          mma_f16_16816(acc[t], p, b0, b1);
        }
      };
      constexpr int word_bytes = lane_bytes < 4 ? lane_bytes : 4;
#pragma unroll
      for (int i = 0; i < lane_words; ++i) {
#pragma unroll
        for (int byte_at = 0; byte_at < word_bytes; ++byte_at) {
          // Byte `byte_at` of two keys, each the lower byte of a half; what stands above it is masked off.
          const unsigned select = 0x0400u + byte_at * 0x1111u;
          const unsigned first = __byte_perm(word[0][i], word[1][i], select);
          const unsigned second = __byte_perm(word[2][i], word[3][i], select);
          if constexpr (C == kv::int8) {
            product(i * 4 + byte_at, kv::scaled(first & byte_mask ^ 0x64806480u, kv::byte_bias, low),
                    kv::scaled(second & byte_mask ^ 0x64806480u, kv::byte_bias, up));
          } else {
            product(i * 8 + byte_at * 2, kv::scaled(first & low_mask ^ 0x64086408u, kv::nibble_bias, low),
                    kv::scaled(second & low_mask ^ 0x64086408u, kv::nibble_bias, up));
            product(i * 8 + byte_at * 2 + 1, kv::scaled_sixteenth(first & high_mask ^ 0x64806480u, low),
                    kv::scaled_sixteenth(second & high_mask ^ 0x64806480u, up));
          }
        }
      }
    }
    if constexpr (PvF16) {
#pragma unroll
      for (int t = 0; t < tiles; ++t) {
        const float2 upper = __half22float2(kv::bits_half2(sums[t][0]));
        const float2 lower = __half22float2(kv::bits_half2(sums[t][1]));
        acc[t][0] += upper.x;
        acc[t][1] += upper.y;
        acc[t][2] += lower.x;
        acc[t][3] += lower.y;
      }
    }
  }

  // Sweep keys [low, high), after `fetch_queries`; high_a and high_b are the visible keys of this lane's rows g and g + 8,
  // first_visible the fewest of any row in use. Needs low < high.
  __device__ __forceinline__ void sweep(const Cache& from, const Rows& rows_in, int kv_head, int low, int high, int high_a,
                                        int high_b, int first_visible) {
    cache = from;
    head = kv_head;
    const int first = low / Bc;
    const int last = (high - 1) / Bc;
    const auto page = [&](int block) { return cache.pages[static_cast<unsigned>(min(block, last)) * Bc / kv::page_tokens]; };
    // Pages of blocks i + 1, i + 2 and, for packed keys, i + 3.
    int page_1 = page(first);
    int page_2 = page(first + 1);
    int page_3 = page(first + 2);
    Unit second[packed ? unit_loads : 1];
    const bool two = first < last;
    // Stages by block: K two, V three. Before the first turn: keys and values of the first block, keys of the second.
    {
      const long long row = block_row(page_1, first);
      const long long next = block_row(page_2, first + 1);
      if constexpr (packed) {
        if (two) {
          fetch_keys(next);
#pragma unroll
          for (int i = 0; i < unit_loads; ++i) second[i] = keys[i];
        }
      }
      if constexpr (packed || Early) fetch_keys(row);
      if (warp < producers) {
        copy_key_scales(row, first);
        if constexpr (!packed && !Early) copy_keys(row, first);
      }
      cp_async_commit();
      if (warp >= W - helpers) copy_values(row, 0);
      cp_async_commit();
      if (warp < producers && two) {
        copy_key_scales(next, first + 1);
        if constexpr (!packed && !Early) copy_keys(next, first + 1);
      }
      cp_async_commit();
    }
    if constexpr (code_tables) {
      unsigned* tables = reinterpret_cast<unsigned*>(shared + table_at);
      for (int i = threadIdx.x; i < 32 + 256; i += threads) {
        tables[i] = i < 32 ? kv::radii.word[i / 2][i % 2] : kv::roots.word[i - 32];
      }
    }
    stage_queries(rows_in);
    if constexpr (code_tables) __syncthreads();
    if constexpr (packed || Early) {
      store_keys(first);
      if constexpr (packed) {
#pragma unroll
        for (int i = 0; i < unit_loads; ++i) keys[i] = second[i];
      }
    }
    high_a = min(high_a, high);
    high_b = min(high_b, high);
    const bool both = Early || rows_in.count > 8;
    int stage = 2;  // of block i; those of i + 1 and i + 2 follow
    __syncthreads();
#pragma unroll 1
    for (int block = first - 1; block <= last; ++block) {
      const int page_4 = page(block + 4);
      const int next_stage = stage == 2 ? 0 : stage + 1;
      const int free_stage = next_stage == 2 ? 0 : next_stage + 1;
      const bool wants_values = block + 1 < last;
      if constexpr (!Early) {
        if (warp >= W - helpers && wants_values) copy_values(block_row(page_2, block + 2), free_stage);
      }
      cp_async_commit();
      if constexpr (packed) {
        if (block + 1 < last) store_keys(block + 2);
        if (block + 2 < last) fetch_keys(block_row(page_3, block + 3));
      }
      if (warp < producers && block < last) {
        cp_async_wait<3>();
        __syncwarp();
        const bool masked = block * Bc + Bc < low || block * Bc + 2 * Bc > min(high, first_visible);
        if (both) {
          score<true>(block + 1, masked, low, high_a, high_b);
        } else {
          score<false>(block + 1, masked, low, high_a, high_b);
        }
        if (block + 2 < last) {
          __syncwarp();
          const long long row = block_row(page_3, block + 3);
          copy_key_scales(row, block + 3);
          if constexpr (!packed && !Early) copy_keys(row, block + 3);
        }
      }
      cp_async_commit();
      // Producers fetch after they have scored: scores and fetched codes at once would want more registers than there are.
      if constexpr (Early) {
        if (wants_values) {
          const long long row = block_row(page_2, block + 2);
          fetch_values(row);
          if constexpr (!packed) fetch_keys(row);
        }
      }
      if (block >= first) {
        if (block * Bc + Bc > high) {
          silence_values(block, stage, high);
          __syncthreads();
        }
        multiply_values(block, stage);
      }
      if constexpr (Early) {
        if (wants_values) {
          store_values(free_stage);
          if constexpr (!packed) store_keys(block + 2);
        }
      }
      cp_async_wait<3>();
      __syncthreads();
      stage = next_stage;
      page_1 = page_2;
      page_2 = page_3;
      page_3 = page_4;
    }
  }

  // Store the sums of row g (half 0) or g + 8 to the 256 floats of its row: columns 2 l and 2 l + 1 are `tiles` dims each.
  __device__ __forceinline__ void store(float* row, int half) const {
    float* to = row + (warp * 8 + lane % 4 * 2) * tiles;
#pragma unroll
    for (int i = 0; i < 2 * tiles; i += 2) {
      const int t = i % tiles;
      const int c = half * 2 + i / tiles;
      *reinterpret_cast<float2*>(to + i) = make_float2(acc[t][c], acc[t + 1][c]);
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
      const int row = lane / 4;
      const int half = warp;
      if (half == 1 && lane % 4 == 0) {
        peer[rows + row] = sum_low;
        peer[rows + row + 8] = sum_high;
      }
      named_barrier(1, 64);
      if (half == 0) {
        sum_low += peer[rows + row];
        sum_high += peer[rows + row + 8];
      }
    }
  }
};

}  // namespace attn
