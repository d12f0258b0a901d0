// Small-T MMA with a shared-memory layout (engine-kernels 5.5; at KWarps 8 and one stage also the K-split MMA of 5.3).
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// 256 threads = 8 warps: KWarps along K, 8 / KWarps along rows, each warp TilesPerWarp tiles of 16 rows. A stage holds 64 KWarps
// elements of K; warp w owns group w mod KWarps of it. Up to XCols token columns (a multiple of 8, or 4: one n8 tile of which
// four columns are never stored); only live columns are copied, what the others hold goes into sums that are never stored.
//
// K order: lane l (of four) owns k = 16 l .. 16 l + 15 of its group, one 64-bit word of codes and 32 bytes of x; product s
// takes k = 16 l + 4 s + {0, 1} in slots (2l, 2l + 1) and + {2, 3} in slots (2l + 8, 2l + 9).
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
#include "prefetch.cuh"
#include "rowsplit.cuh"
#include "tile_store.cuh"

template <int XCols, int Stages, int KWarps, int TilesPerWarp, int MinBlocks>
struct SmallT {
  static_assert(XCols == 4 || (XCols % 8 == 0 && XCols <= 32), "column capacity is 4, 8, 16, 24 or 32");
  static_assert(KWarps == 2 || KWarps == 4 || KWarps == 8, "K is shared by 2, 4 or 8 of the 8 warps");
  static_assert(Stages >= 1 && Stages <= 3, "one to three stages");
  static constexpr int kXCols = XCols, kStages = Stages, kKWarps = KWarps, kTiles = TilesPerWarp, kMinBlocks = MinBlocks;
  static constexpr int kThreads = 256;
  static constexpr int kRows = 16 * (8 / KWarps) * TilesPerWarp;
  static constexpr int kColumnTiles = (XCols + 7) / 8;
};

template <typename Cfg, typename Format>
struct SmallTShared {
  // Padding keeps the 64-bit reads of eight rows and the 128-bit reads of two columns on different banks.
  static constexpr int kCodePitch = 32 * Cfg::kKWarps + 32;
  static constexpr int kHighPitch =
      Format::kHighBytes == 0 ? 0 : Format::kHighBytes * Cfg::kKWarps + (Cfg::kKWarps == 2 ? 32 : 16);
  static constexpr int kXPitch = (64 + 8) * 2;
  static constexpr int kScalePitch = 2 * Cfg::kKWarps;
  static constexpr int kCodes = Cfg::kRows * kCodePitch;
  static constexpr int kHigh = Cfg::kRows * kHighPitch;
  static constexpr int kX = Cfg::kKWarps * Cfg::kXCols * kXPitch;
  static constexpr int kScales = Cfg::kRows * kScalePitch;
  static constexpr int kStage = kCodes + kHigh + kX + kScales;
  static constexpr int kLoop = Cfg::kStages * kStage;
  // Reduction: one slot a pair of K warps, then the finished tile.
  static constexpr int kSlot = Cfg::kTiles * Cfg::kColumnTiles * 512;
  static constexpr int kSlots = 4 * kSlot;
  static constexpr int kReduce = kSlots + tile_bytes(Cfg::kRows, Cfg::kColumnTiles * 8);
  static constexpr int kBytes = kLoop > kReduce ? kLoop : kReduce;
};

// Rows of a CTA in which each tile of 16 is eight gate rows and the eight up rows `apart` rows further on.
struct GateUpRows {
  int first, apart;
  __device__ __forceinline__ int operator()(int row) const {
    return first + row / 16 * 8 + row % 8 + (row / 8 % 2 ? apart : 0);
  }
};

// `shared` has SmallTShared<Cfg, Format>::kBytes bytes, 16-byte aligned; `rows` maps a CTA row to a row of `w`; x is
// (columns, k) with columns <= XCols.
template <typename Cfg, typename Format, typename Rows, typename Epilogue>
__device__ __forceinline__ void small_t_mma(unsigned char* shared, RowSplit w, const Rows& rows, int k, const __nv_bfloat16* x,
                                            int columns, const Epilogue& epilogue) {
  using Shared = SmallTShared<Cfg, Format>;
  constexpr int KW = Cfg::kKWarps, kTiles = Cfg::kTiles, kColumnTiles = Cfg::kColumnTiles, S = Cfg::kStages;
  constexpr int kThreads = Cfg::kThreads;
  constexpr int kSlabBytes = 32 * KW;  // of the code plane
  constexpr int kAheadBytes = 1024;    // likewise; the high plane in proportion
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int k_warp = warp % KW, row_warp = warp / KW;
  const int g = lane / 4, l = lane % 4;
  const int groups = k / 64, slabs = groups / KW;
  const int code_pitch = groups * Format::kCodeBytes, high_pitch = groups * Format::kHighBytes;

  // Where this thread copies from in slab 0, as 32-bit offsets into the planes.
  constexpr int kCodeChunks = 2 * KW, kHighChunks = Format::kHighBytes * KW / 16;
  constexpr int kCodeCopies = (Cfg::kRows * kCodeChunks + kThreads - 1) / kThreads;
  static_assert(Cfg::kRows * kCodeChunks % kThreads == 0, "every thread copies the same number of code chunks");
  static_assert(Cfg::kRows * kHighChunks <= kThreads && Cfg::kRows <= kThreads, "one copy a thread covers the high plane");
  unsigned code_from[kCodeCopies];
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i)
    code_from[i] = static_cast<unsigned>(rows((thread + i * kThreads) / kCodeChunks)) * code_pitch + thread % kCodeChunks * 16;
  unsigned high_from = 0;
  if constexpr (Format::kHighBytes > 0)
    high_from = static_cast<unsigned>(rows(thread / kHighChunks % Cfg::kRows)) * high_pitch + thread % kHighChunks * 16;
  const unsigned scale_from = static_cast<unsigned>(rows(thread % Cfg::kRows)) * groups;
  const int x_column = thread / (8 * KW), x_chunk = thread % (8 * KW);

  auto copy_slab = [&](int slab, int stage) {
    unsigned char* const to_codes = shared + stage * Shared::kStage;
    unsigned char* const to_high = to_codes + Shared::kCodes;
    unsigned char* const to_x = to_high + Shared::kHigh;
    unsigned char* const to_scales = to_x + Shared::kX;
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i)
      cp_async_cg(to_codes + (thread + i * kThreads) / kCodeChunks * Shared::kCodePitch + thread % kCodeChunks * 16,
                  w.codes + (code_from[i] + slab * kSlabBytes));
    if constexpr (Format::kHighBytes > 0)
      if (thread < Cfg::kRows * kHighChunks)
        cp_async_cg(to_high + thread / kHighChunks * Shared::kHighPitch + thread % kHighChunks * 16,
                    w.high + (high_from + slab * (Format::kHighBytes * KW)));
    if (thread < Cfg::kRows) {
      if constexpr (KW == 8)
        cp_async_cg(to_scales + thread * 16, w.scales + (scale_from + slab * KW));
      else
        cp_async_ca<2 * KW>(to_scales + thread * (2 * KW), w.scales + (scale_from + slab * KW));
    }
    const __nv_bfloat16* from = x + static_cast<long long>(x_column) * k + slab * (64 * KW) + x_chunk * 8;
    unsigned char* to = to_x + (x_chunk / 8 * Cfg::kXCols + x_column) * Shared::kXPitch + x_chunk % 8 * 16;
    constexpr int kColumnStep = kThreads / (8 * KW);
#pragma unroll 1
    for (int column = x_column; column < columns; column += kColumnStep) {
      cp_async_cg(to, from);
      from += kColumnStep * k;
      to += kColumnStep * Shared::kXPitch;
    }
  };

  auto prefetch_slab = [&](int slab) {
    if (slab >= slabs) return;
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i)
      if (thread % kCodeChunks % 8 == 0) prefetch_l2(w.codes + (code_from[i] + slab * kSlabBytes));
    if constexpr (Format::kHighBytes > 0)
      if (thread < Cfg::kRows * kHighChunks && thread % kHighChunks % 8 == 0)
        prefetch_l2(w.high + (high_from + slab * (Format::kHighBytes * KW)));
  };

  float sums[kTiles][kColumnTiles][4] = {};

  auto multiply_slab = [&](int stage) {
    const unsigned char* const codes = shared + stage * Shared::kStage + k_warp * 32 + l * 8;
    const unsigned char* const high =
        shared + stage * Shared::kStage + Shared::kCodes + (k_warp * 4 + l) * (Format::kHighBytes / 4);
    const unsigned char* const to_x = shared + stage * Shared::kStage + Shared::kCodes + Shared::kHigh;
    const __half* const scales = reinterpret_cast<const __half*>(to_x + Shared::kX);
    // XCols 4: lanes of columns 4 to 7 read columns 0 to 3 again.
    const unsigned char* const x_at =
        to_x + (k_warp * Cfg::kXCols + (Cfg::kXCols == 4 ? g % 4 : g)) * Shared::kXPitch + l * 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      unsigned a[4][4];  // by product, then fragment word
      float scale[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (row_warp * kTiles + tile) * 16 + half * 8 + g;
        const uint2 low = *reinterpret_cast<const uint2*>(codes + row * Shared::kCodePitch);
        unsigned high_bits[2] = {};
        if constexpr (Format::kHighBytes == 8) {
          high_bits[0] = *reinterpret_cast<const unsigned short*>(high + row * Shared::kHighPitch);
          high_bits[1] = high_bits[0] >> 8;
        } else if constexpr (Format::kHighBytes == 16) {
          high_bits[0] = *reinterpret_cast<const unsigned*>(high + row * Shared::kHighPitch);
          high_bits[1] = high_bits[0] >> 16;
        }
        scale[half] = __half2float(scales[row * KW + k_warp]);
#pragma unroll
        for (int word = 0; word < 2; ++word) {
          unsigned pairs[4];
          decode8_pairs<Format>(word ? low.y : low.x, high_bits[word], pairs);
          a[word * 2][half] = pairs[0], a[word * 2][half + 2] = pairs[1];
          a[word * 2 + 1][half] = pairs[2], a[word * 2 + 1][half + 2] = pairs[3];
        }
      }
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        const uint4 x0 = *reinterpret_cast<const uint4*>(x_at + n * 8 * Shared::kXPitch);
        const uint4 x1 = *reinterpret_cast<const uint4*>(x_at + n * 8 * Shared::kXPitch + 16);
        float group[4] = {};
        mma_bf16_16816(group, a[0], x0.x, x0.y);
        mma_bf16_16816(group, a[1], x0.z, x0.w);
        mma_bf16_16816(group, a[2], x1.x, x1.y);
        mma_bf16_16816(group, a[3], x1.z, x1.w);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[tile][n][i] = __fmaf_rn(group[i], scale[i / 2], sums[tile][n][i]);
      }
    }
  };

  constexpr int kAhead = kAheadBytes / kSlabBytes;
#pragma unroll 1
  for (int slab = 0; slab < kAhead; ++slab) prefetch_slab(slab);
  if constexpr (S > 1) {
#pragma unroll
    for (int stage = 0; stage < S - 1; ++stage) {
      if (stage < slabs) copy_slab(stage, stage);
      cp_async_commit();
    }
  }
  int stage = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    const int next = slab + S - 1;
    if (S == 1) __syncthreads();
    if constexpr (S == 1) {
      copy_slab(slab, 0);
      cp_async_commit();
      cp_async_wait<0>();
      __syncthreads();
    } else {
      cp_async_wait<S - 2>();
      // One barrier: slab `slab` has arrived for all, and nobody reads the stage that is refilled below any more.
      __syncthreads();
      if (next < slabs) copy_slab(next, stage == 0 ? S - 1 : stage - 1);
      cp_async_commit();
    }
    prefetch_slab(slab + kAhead);
    multiply_slab(stage);
    stage = stage + 1 == S ? 0 : stage + 1;
  }
  cp_async_wait<0>();
  __syncthreads();

  // Odd K warps publish, even ones fold them; then the first sums the rest in order 2, 4, 6.
  auto slot = [&](int index) {
    return reinterpret_cast<float4*>(shared) + ((index * (8 / KW) + row_warp) * kTiles * kColumnTiles) * 32 + lane;
  };
  auto publish = [&](int index) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n)
        slot(index)[(tile * kColumnTiles + n) * 32] =
            make_float4(sums[tile][n][0], sums[tile][n][1], sums[tile][n][2], sums[tile][n][3]);
  };
  auto fold = [&](int index) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        const float4 other = slot(index)[(tile * kColumnTiles + n) * 32];
        sums[tile][n][0] += other.x, sums[tile][n][1] += other.y, sums[tile][n][2] += other.z, sums[tile][n][3] += other.w;
      }
  };
  if (k_warp % 2 == 1) publish(k_warp / 2);
  __syncthreads();
  if (k_warp % 2 == 0) fold(k_warp / 2);
  if constexpr (KW > 2) {
    __syncthreads();
    if (k_warp % 2 == 0 && k_warp > 0) publish(k_warp / 2);
    __syncthreads();
    if (k_warp == 0)
#pragma unroll
      for (int index = 1; index < KW / 2; ++index) fold(index);
  }
  float* const tile_at = reinterpret_cast<float*>(shared + Shared::kSlots);
  if (k_warp == 0)
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          tile_at[(n * 8 + l * 2 + i % 2) * (Cfg::kRows + kTilePad) + (row_warp * kTiles + tile) * 16 + g + i / 2 * 8] =
              sums[tile][n][i];
  __syncthreads();
  store_tile<Cfg::kRows, kThreads>(tile_at, columns, 0, epilogue);
}
