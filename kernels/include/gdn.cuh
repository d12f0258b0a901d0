// Building blocks of the gated delta net kernels: shared tiles, fragments, and warp products with two forms.
//
// Volta = false: sm_80 and later: BF16 and TF32 tensor cores, ldmatrix, cp.async.
// Volta = true: sm_70 and later: the same fragments, FP32 products on the ordinary cores, plain loads. It runs on every
// device, so its results can be proven on a later one.
//
// Fragments are those of mma.cuh (lane = 4 * g + l). TF32 operands hold the keys of a k8 step in the order 0 2 4 6 1 3 5 7:
// a sum does not care, and so an accumulator tile is an A operand, and one 16-bit pair is both of a B operand's values.
#pragma once
#include <cuda_bf16.h>

#include "cp_async.cuh"
#include "mma.cuh"

namespace gdn {

constexpr int kDim = 128;      // key dims of a head, and value dims
constexpr int kQkHeads = 16;   // query/key heads
constexpr float kNormEps = 1e-6f;

template <bool Volta>
__device__ __forceinline__ void require_arch() {
#if __CUDA_ARCH__ < 800
  static_assert(Volta, "sm_70 has no BF16 or TF32 products and no cp.async: take the Volta form");
#endif
}

__device__ __forceinline__ int lane_id() { return threadIdx.x & 31; }

// A tile of BF16 rows in shared memory; 16-byte pieces of a row are permuted so that eight rows of one column are in
// different banks.
template <int Cols>
struct Tile {
  static constexpr int kPieces = Cols / 8;
  static constexpr int kRowsPerLine = kPieces >= 8 ? 1 : 8 / kPieces;
  static constexpr int kMask = kPieces >= 8 ? 7 : kPieces - 1;
  __nv_bfloat16* base;
  __device__ __forceinline__ __nv_bfloat16* piece(int row, int index) const {
    return base + row * Cols + ((index ^ (row / kRowsPerLine & kMask)) << 3);
  }
  __device__ __forceinline__ __nv_bfloat16* at(int row, int col) const { return piece(row, col >> 3) + (col & 7); }
};

__device__ __forceinline__ unsigned pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ float low_half(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }

__device__ __forceinline__ unsigned word(const __nv_bfloat16* address) { return *reinterpret_cast<const unsigned*>(address); }
__device__ __forceinline__ unsigned two(const __nv_bfloat16* low, const __nv_bfloat16* high) {
  return static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(low)) |
         static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(high)) << 16;
}

// Eight values of a row that half a warp holds, times rsqrt(sum of the row's squares + 1e-6).
__device__ __forceinline__ uint4 normalised(uint4 x) {
  unsigned pairs[4] = {x.x, x.y, x.z, x.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(low_half(pairs[i]), low_half(pairs[i]), fmaf(high_half(pairs[i]), high_half(pairs[i]), sum));
#pragma unroll
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  const float norm = rsqrtf(sum + kNormEps);
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = pack(low_half(pairs[i]) * norm, high_half(pairs[i]) * norm);
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-ldmatrix
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

// A operand: rows row0..+16, k = col0..+16.
template <bool Volta, int Cols>
__device__ __forceinline__ void load_a(unsigned (&r)[4], Tile<Cols> tile, int row0, int col0) {
  const int lane = lane_id();
  if constexpr (Volta) {
#pragma unroll
    for (int j = 0; j < 4; ++j) r[j] = word(tile.at(row0 + lane / 4 + (j & 1) * 8, col0 + (j >> 1) * 8 + lane % 4 * 2));
  } else {
    ldmatrix_x4(r, tile.piece(row0 + (lane & 15), col0 / 8 + (lane >> 4)));
  }
}

// B operand of two column tiles whose columns are the tile's rows: n = row0..+16, k = col0..+16; r[0], r[1] the first.
template <bool Volta, int Cols>
__device__ __forceinline__ void load_b(unsigned (&r)[4], Tile<Cols> tile, int row0, int col0) {
  const int lane = lane_id();
  if constexpr (Volta) {
#pragma unroll
    for (int j = 0; j < 4; ++j) r[j] = word(tile.at(row0 + lane / 4 + (j >> 1) * 8, col0 + (j & 1) * 8 + lane % 4 * 2));
  } else {
    ldmatrix_x4(r, tile.piece(row0 + (lane & 7) + (lane >> 4) * 8, col0 / 8 + (lane >> 3 & 1)));
  }
}

// B operand of one column tile: n = row0..+8, k = col0..+32, one register per eight of k.
template <bool Volta, int Cols>
__device__ __forceinline__ void load_b_long(unsigned (&r)[4], Tile<Cols> tile, int row0, int col0) {
  const int lane = lane_id();
  if constexpr (Volta) {
#pragma unroll
    for (int j = 0; j < 4; ++j) r[j] = word(tile.at(row0 + lane / 4, col0 + j * 8 + lane % 4 * 2));
  } else {
    ldmatrix_x4(r, tile.piece(row0 + (lane & 7), col0 / 8 + (lane >> 3)));
  }
}

// B operand of two column tiles that lie along the tile's columns: k = row0..+16, n = col0..+16; r[0], r[1] the first.
template <bool Volta, int Cols>
__device__ __forceinline__ void load_b_trans(unsigned (&r)[4], Tile<Cols> tile, int row0, int col0) {
  const int lane = lane_id();
  if constexpr (Volta) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + (j & 1) * 8 + lane % 4 * 2, col = col0 + (j >> 1) * 8 + lane / 4;
      r[j] = two(tile.at(row, col), tile.at(row + 1, col));
    }
  } else {
    ldmatrix_x4_trans(r, tile.piece(row0 + (lane & 15), col0 / 8 + (lane >> 4)));
  }
}

// The transpose of rows row0..+8, columns col0..+16 as BF16 pairs in accumulator layout: r[0] row g, r[1] row g + 8.
template <bool Volta, int Cols>
__device__ __forceinline__ void load_transposed(unsigned (&r)[2], Tile<Cols> tile, int row0, int col0) {
  const int lane = lane_id();
  if constexpr (Volta) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = row0 + lane % 4 * 2, col = col0 + j * 8 + lane / 4;
      r[j] = two(tile.at(row, col), tile.at(row + 1, col));
    }
  } else {
    ldmatrix_x2_trans(r, tile.piece(row0 + (lane & 7), col0 / 8 + (lane >> 3 & 1)));
  }
}

// An 8x8 matrix of BF16 pairs (row g, columns 2l, 2l + 1), transposed.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-movmatrix
template <bool Volta>
__device__ __forceinline__ unsigned transpose8(unsigned pair) {
  if constexpr (Volta) {
    const int lane = lane_id(), source = lane % 4 * 8 + lane / 8;
    const unsigned low = __shfl_sync(0xFFFFFFFFu, pair, source), high = __shfl_sync(0xFFFFFFFFu, pair, source + 4);
    return lane / 4 & 1 ? low >> 16 | (high & 0xFFFF0000u) : (low & 0xFFFFu) | high << 16;
  } else {
    unsigned out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
    return out;
  }
}

// The two products of the Volta form: a lane gathers the rows of its quad and its two columns by shuffles. Calls, not inlined:
// a kernel holds hundreds of them, and compiling them in place takes minutes.
__device__ __noinline__ float4 fp32_16816(float4 c, uint4 a, uint2 b) {
  const int lane = lane_id(), quad = lane & ~3, column = lane % 4 * 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned x = __shfl_sync(0xFFFFFFFFu, half ? a.z : a.x, quad + j);
      const unsigned y = __shfl_sync(0xFFFFFFFFu, half ? a.w : a.y, quad + j);
      const unsigned u = __shfl_sync(0xFFFFFFFFu, half ? b.y : b.x, column + j);
      const unsigned w = __shfl_sync(0xFFFFFFFFu, half ? b.y : b.x, column + 4 + j);
      c.x = fmaf(high_half(x), high_half(u), fmaf(low_half(x), low_half(u), c.x));
      c.y = fmaf(high_half(x), high_half(w), fmaf(low_half(x), low_half(w), c.y));
      c.z = fmaf(high_half(y), high_half(u), fmaf(low_half(y), low_half(u), c.z));
      c.w = fmaf(high_half(y), high_half(w), fmaf(low_half(y), low_half(w), c.w));
    }
  }
  return c;
}
__device__ __noinline__ float4 fp32_1688(float4 c, float4 a, float2 b) {
  const int lane = lane_id(), quad = lane & ~3, column = lane % 4 * 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float x = __shfl_sync(0xFFFFFFFFu, half ? a.z : a.x, quad + j);
      const float y = __shfl_sync(0xFFFFFFFFu, half ? a.w : a.y, quad + j);
      const float u = __shfl_sync(0xFFFFFFFFu, half ? b.y : b.x, column + j);
      const float w = __shfl_sync(0xFFFFFFFFu, half ? b.y : b.x, column + 4 + j);
      c.x = fmaf(x, u, c.x), c.y = fmaf(x, w, c.y), c.z = fmaf(y, u, c.z), c.w = fmaf(y, w, c.w);
    }
  }
  return c;
}
__device__ __forceinline__ void assign(float (&c)[4], float4 x) { c[0] = x.x, c[1] = x.y, c[2] = x.z, c[3] = x.w; }

// c += a * b, m16n8k16, BF16 operands, FP32 sums.
template <bool Volta>
__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (Volta) {
    assign(c, fp32_16816(make_float4(c[0], c[1], c[2], c[3]), make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b0, b1)));
  } else {
    mma_bf16_16816(c, a, b0, b1);
  }
}

// c += a * b, m16n8k8: TF32 operands (FP32 in the Volta form), FP32 sums.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-fragment-mma-1688
template <bool Volta>
__device__ __forceinline__ void mma_tf32(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
  if constexpr (Volta) {
    assign(c, fp32_1688(make_float4(c[0], c[1], c[2], c[3]), make_float4(a0, a1, a2, a3), make_float2(b0, b1)));
  } else {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
          "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
  }
}

// The same with an accumulator tile as A (its column order is that of the operand) and b as the pair (k = 2l, 2l + 1).
template <bool Volta>
__device__ __forceinline__ void mma_tile(float (&c)[4], const float (&a)[4], float b0, float b1) {
  mma_tf32<Volta>(c, a[0], a[2], a[1], a[3], b0, b1);
}

// 16 bytes from global to shared memory, zeros where not live: asynchronous, or at once in the Volta form.
template <bool Volta>
__device__ __forceinline__ void copy16(void* shared, const void* global, bool live) {
  if constexpr (Volta) {
    *static_cast<uint4*>(shared) = live ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
  } else {
    cp_async_cg_or_zero(shared, global, live);
  }
}
template <bool Volta>
__device__ __forceinline__ void copy_commit() {
  if constexpr (!Volta) cp_async_commit();
}
template <bool Volta, int Pending>
__device__ __forceinline__ void copy_wait() {
  if constexpr (!Volta) cp_async_wait<Pending>();
}

// A barrier of the block that warps may reach at different places of the code, each as often as the others.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-bar
__device__ __forceinline__ void block_barrier() { asm volatile("bar.sync 0;" ::: "memory"); }

// f(0) .. f(Count - 1), shared out over Threads threads of which this is number `thread`. The trip count is a constant, as it
// is not in a loop that starts at threadIdx.x, so that the body is unrolled and its addresses are found once.
template <int Count, int Threads, typename F>
__device__ __forceinline__ void each(int thread, F&& f) {
#pragma unroll
  for (int j = 0; j < (Count + Threads - 1) / Threads; ++j) {
    const int i = j * Threads + thread;
    if (Count % Threads == 0 || j < Count / Threads || i < Count) f(i);
  }
}
template <int Count, int Threads, typename F>
__device__ __forceinline__ void each(F&& f) {
  each<Count, Threads>(static_cast<int>(threadIdx.x), static_cast<F&&>(f));
}

// Sums of eight values over the warp, all in every lane: halves are traded until four lanes hold each, then read back. 17
// shuffles instead of 40.
__device__ __forceinline__ void warp_sums(float (&x)[8]) {
  const int lane = lane_id();
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
    const int bit = half * 4;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float given = lane & bit ? x[i] : x[i + half], kept = lane & bit ? x[i + half] : x[i];
      x[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, bit);
    }
  }
  float sum = x[0];
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = __shfl_sync(0xFFFFFFFFu, sum, i * 4);
}

// Inclusive sum over lanes 0 .. lane.
__device__ __forceinline__ float prefix_sum(float value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const float other = __shfl_up_sync(0xFFFFFFFFu, value, offset);
    if (lane_id() >= offset) value += other;
  }
  return value;
}

// Column `column` of (I + factor * L)^-1 for a 16x16 strictly lower L with rows of `stride` floats.
template <int Stride>
__device__ __forceinline__ void invert_column(float (&x)[16], const float* lower, float factor, int column) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sum = 0.0f;
#pragma unroll
    for (int m = 0; m < i; m += 4) {
      const float4 l = *reinterpret_cast<const float4*>(lower + i * Stride + m);
      sum = fmaf(l.x, x[m], sum);
      if (m + 1 < i) sum = fmaf(l.y, x[m + 1], sum);
      if (m + 2 < i) sum = fmaf(l.z, x[m + 2], sum);
      if (m + 3 < i) sum = fmaf(l.w, x[m + 3], sum);
    }
    x[i] = fmaf(-factor, sum, i == column ? 1.0f : 0.0f);
  }
}

}  // namespace gdn
