// Tiled BF16-MMA GEMM over row-split weights (engine-kernels 5.1).
//
//   sum[t][r] = sum_k bf16(scale(r, k/64) * code(r, k)) * x[t][k],  FP32 sums over all of K
//
// One CTA computes BM weight rows x BN token columns, BK elements of K a step. Warp tiles are WM x WN of m16n8k16 products;
// threads = 32 (BM / WM) (BN / WN). S cp.async buffers, all primed before the loop, hold {x BN x BK BF16, codes, high bytes,
// scales}; one more buffer holds the decoded BM x BK weights. A step: wait, barrier, decode, barrier, multiply, barrier, refill.
// Both BF16 tiles are swizzled: the 16-byte column c of row r is stored at column c ^ (r mod 8).
//
// PingPong   fragments of the next k16 are loaded before the products of this one
// Cg         16-byte copies go past L1; else through it
// ScalePair  the aligned pair of FP16 scales that holds a group's scale is copied as 4 bytes; else 2-byte loads
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
#include "prefetch.cuh"
#include "rowsplit.cuh"
#include "tile_store.cuh"

template <int BM, int BN, int BK, int WM, int WN, int S, int MinBlocks, bool PingPong = false, bool Cg = true,
          bool ScalePair = true>
struct GemmCfg {
  static_assert(BK == 64 || BK == 128, "a K step is one or two groups of 64");
  static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles cover the CTA tile exactly");
  static_assert(WM % 16 == 0 && WN % 8 == 0, "a warp tile is made of m16n8 products");
  static_assert(S >= 2, "copies of one step overlap the products of another");
  static_assert(ScalePair || BK == 64, "two groups a step need both scales");
  static constexpr int kRows = BM, kColumns = BN, kDepth = BK, kWarpRows = WM, kWarpColumns = WN, kStages = S;
  static constexpr int kMinBlocks = MinBlocks;
  static constexpr bool kPingPong = PingPong, kCg = Cg, kScalePair = ScalePair;
  static constexpr int kWarps = (BM / WM) * (BN / WN), kThreads = 32 * kWarps;
};

// Shared memory of one CTA, in bytes.
template <typename Cfg, typename Format>
struct GemmShared {
  static constexpr int kWeights = Cfg::kRows * Cfg::kDepth * 2;
  static constexpr int kX = Cfg::kColumns * Cfg::kDepth * 2;
  static constexpr int kCodes = Cfg::kRows * Cfg::kDepth / 64 * Format::kCodeBytes;
  static constexpr int kHigh = Cfg::kRows * Cfg::kDepth / 64 * Format::kHighBytes;
  static constexpr int kScales = Cfg::kRows * (Cfg::kScalePair ? 4 : 2);
  static constexpr int kStage = kX + kCodes + kHigh + kScales;
  static constexpr int kLoop = kWeights + Cfg::kStages * kStage;
  static constexpr int kTile = tile_bytes(Cfg::kRows, Cfg::kColumns);
  static constexpr int kBytes = kLoop > kTile ? kLoop : kTile;
};

// Rows of a CTA that are consecutive rows of the weights.
struct ConsecutiveRows {
  int first;
  __device__ __forceinline__ int operator()(int row) const { return first + row; }
};

// Rows of a CTA of which the first Half come from `first` on and the rest from `first + apart` on.
template <int Half>
struct SplitHalfRows {
  int first, apart;
  __device__ __forceinline__ int operator()(int row) const { return first + (row < Half ? row : row - Half + apart); }
};

// bf16(scale * code) of eight codes, each product rounded once: the code is an exact float 128 + 2^(bits-1) + code, and the
// fused multiply-add removes the bias exactly.
template <typename Format>
__device__ __forceinline__ uint4 decode8_scaled(unsigned low, unsigned high, float scale) {
  unsigned even, odd;
  biased_bytes<Format>(low, high, even, odd);
  const float bias = -static_cast<float>(128 + (1 << (Format::kBits - 1))) * scale;
  unsigned out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = __uint_as_float(byte_permute(even, 0x43u, 0x4055u | i << 8));
    const float b = __uint_as_float(byte_permute(odd, 0x43u, 0x4055u | i << 8));
    out[i] = pack_bf16(__fmaf_rn(a, scale, bias), __fmaf_rn(b, scale, bias));
  }
  return {out[0], out[1], out[2], out[3]};
}

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Offset of 16-byte column `chunk` of row `row` in a swizzled BF16 tile of `Depth` columns.
template <int Depth>
__device__ __forceinline__ int swizzled(int row, int chunk) {
  return row * Depth * 2 + (chunk ^ (row & 7)) * 16;
}

// The tile's loop and epilogue. `shared` has GemmShared<Cfg, Format>::kBytes bytes, 16-byte aligned; `rows` maps a CTA row to
// a row of `w`; x is (columns, k), of which the CTA takes columns column0 .. column0 + BN - 1 as far as they exist.
template <typename Cfg, typename Format, typename Rows, typename Epilogue>
__device__ __forceinline__ void gemm_tile(unsigned char* shared, RowSplit w, const Rows& rows, int k, const __nv_bfloat16* x,
                                          int columns, int column0, const Epilogue& epilogue) {
  using Shared = GemmShared<Cfg, Format>;
  constexpr int BM = Cfg::kRows, BN = Cfg::kColumns, BK = Cfg::kDepth, S = Cfg::kStages, kThreads = Cfg::kThreads;
  constexpr int kGroups = BK / 64;
  constexpr int kMTiles = Cfg::kWarpRows / 16, kNTiles = Cfg::kWarpColumns / 8;
  constexpr int kAheadBytes = 512;  // of the code plane; the high plane in proportion
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int warp_row = warp / (BN / Cfg::kWarpColumns) * Cfg::kWarpRows;
  const int warp_column = warp % (BN / Cfg::kWarpColumns) * Cfg::kWarpColumns;
  const int live = columns - column0 < BN ? columns - column0 : BN;
  const int groups = k / 64, steps = k / BK;
  const int code_pitch = groups * Format::kCodeBytes, high_pitch = groups * Format::kHighBytes;
  unsigned char* const weights = shared;

  auto stage_at = [&](int stage) { return shared + Shared::kWeights + stage * Shared::kStage; };

  auto copy16 = [](void* to, const void* from) {
    if constexpr (Cfg::kCg)
      cp_async_cg(to, from);
    else
      cp_async_ca<16>(to, from);
  };

  // Where this thread copies from at step 0, as 32-bit offsets: byte offsets of the planes, element offsets of x and the scales.
  constexpr int kXChunks = BK / 8, kCodeChunks = kGroups * 2;
  constexpr int kXCopies = ceil_div(BN * kXChunks, kThreads), kCodeCopies = ceil_div(BM * kCodeChunks, kThreads);
  constexpr int kHighCopies = ceil_div(BM * kGroups, kThreads), kScaleCopies = ceil_div(BM, kThreads);
  unsigned x_from[kXCopies], code_from[kCodeCopies], high_from[kHighCopies], scale_from[kScaleCopies];
#pragma unroll
  for (int i = 0; i < kXCopies; ++i) {
    // Columns past the last live one repeat it: their sums are never stored.
    const int column = (thread + i * kThreads) / kXChunks;
    x_from[i] = static_cast<unsigned>(column0 + (column < live ? column : live - 1)) * k + thread % kXChunks * 8;
  }
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i)
    code_from[i] = static_cast<unsigned>(rows((thread + i * kThreads) / kCodeChunks % BM)) * code_pitch + thread % kCodeChunks * 16;
#pragma unroll
  for (int i = 0; i < kHighCopies; ++i)
    high_from[i] = static_cast<unsigned>(rows((thread + i * kThreads) / kGroups % BM)) * high_pitch +
                   thread % kGroups * Format::kHighBytes;
#pragma unroll
  for (int i = 0; i < kScaleCopies; ++i) scale_from[i] = static_cast<unsigned>(rows((thread + i * kThreads) % BM)) * groups;
  static_assert(kThreads % kXChunks == 0, "a thread keeps its 16-byte column of x");

  auto copy_step = [&](int step, int stage) {
    unsigned char* const to_x = stage_at(stage);
    unsigned char* const to_codes = to_x + Shared::kX;
    unsigned char* const to_high = to_codes + Shared::kCodes;
    unsigned char* const to_scales = to_high + Shared::kHigh;
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      if (const int i = thread + j * kThreads; i < BN * kXChunks)
        copy16(to_x + swizzled<BK>(i / kXChunks, i % kXChunks), x + (x_from[j] + step * BK));
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      if (const int i = thread + j * kThreads; i < BM * kCodeChunks)
        copy16(to_codes + i * 16, w.codes + (code_from[j] + step * (kGroups * 32)));
    if constexpr (Format::kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int i = thread + j * kThreads; i < BM * kGroups)
          cp_async_ca<Format::kHighBytes>(to_high + i * Format::kHighBytes,
                                          w.high + (high_from[j] + step * (kGroups * Format::kHighBytes)));
#pragma unroll
    for (int j = 0; j < kScaleCopies; ++j)
      if (const int i = thread + j * kThreads; i < BM) {
        if constexpr (Cfg::kScalePair)
          cp_async_ca<4>(to_scales + i * 4, w.scales + (scale_from[j] + (kGroups == 2 ? step * 2 : step / 2 * 2)));
        else
          reinterpret_cast<__half*>(to_scales)[i] = w.scales[scale_from[j] + step];
      }
  };

  // Hint the 128-byte lines of every row at `step`, codes and high bytes.
  auto prefetch_step = [&](int step) {
    if (step >= steps) return;
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      if (const int i = thread + j * kThreads; i < BM * kCodeChunks && i % kCodeChunks == 0)
        prefetch_l2(w.codes + (code_from[j] + step * (kGroups * 32)));
    if constexpr (Format::kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int i = thread + j * kThreads; i < BM * kGroups && i % kGroups == 0)
          prefetch_l2(w.high + (high_from[j] + step * (kGroups * Format::kHighBytes)));
  };

  auto decode_step = [&](int step, int stage) {
    const unsigned char* const codes = stage_at(stage) + Shared::kX;
    const unsigned char* const high = codes + Shared::kCodes;
    const __half* const scales = reinterpret_cast<const __half*>(high + Shared::kHigh);
    constexpr int kWords = BK / 8;
#pragma unroll
    for (int i = thread; i < BM * kWords; i += kThreads) {
      const int row = i / kWords, word = i % kWords;
      unsigned high_bits = 0;
      if constexpr (Format::kHighBytes == 8) high_bits = high[i];
      if constexpr (Format::kHighBytes == 16) high_bits = reinterpret_cast<const unsigned short*>(high)[i];
      const int pick = kGroups == 2 ? row * 2 + word / 8 : Cfg::kScalePair ? row * 2 + step % 2 : row;
      *reinterpret_cast<uint4*>(weights + swizzled<BK>(row, word)) =
          decode8_scaled<Format>(reinterpret_cast<const unsigned*>(codes)[i], high_bits, __half2float(scales[pick]));
    }
  };

  float sums[kMTiles][kNTiles][4] = {};
  unsigned a[2][kMTiles][4], b[2][kNTiles][2];

  auto load_fragments = [&](const unsigned char* to_x, int k16, int half) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
      ldmatrix_x4(a[half][m],
                  weights + swizzled<BK>(warp_row + m * 16 + lane % 16, k16 * 2 + lane / 16));
#pragma unroll
    for (int n = 0; n + 1 < kNTiles; n += 2) {
      unsigned both[4];
      ldmatrix_x4(both, to_x + swizzled<BK>(warp_column + n * 8 + lane % 8 + lane / 16 * 8, k16 * 2 + lane / 8 % 2));
      b[half][n][0] = both[0], b[half][n][1] = both[1], b[half][n + 1][0] = both[2], b[half][n + 1][1] = both[3];
    }
    if constexpr (kNTiles % 2 == 1)
      ldmatrix_x2(b[half][kNTiles - 1],
                  to_x + swizzled<BK>(warp_column + (kNTiles - 1) * 8 + lane % 8, k16 * 2 + lane / 8 % 2));
  };

  constexpr int kLineSteps = 128 / (kGroups * 32), kAhead = kAheadBytes / (kGroups * 32);
#pragma unroll 1
  for (int step = 0; step < kAhead; step += kLineSteps) prefetch_step(step);
#pragma unroll
  for (int stage = 0; stage < S; ++stage) {
    if (stage < steps) copy_step(stage, stage);
    cp_async_commit();
  }
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<S - 1>();
    __syncthreads();
    decode_step(step, stage);
    if (step % kLineSteps == 0) prefetch_step(step + kAhead);
    __syncthreads();
    const unsigned char* const to_x = stage_at(stage);
    if constexpr (Cfg::kPingPong) load_fragments(to_x, 0, 0);
#pragma unroll
    for (int k16 = 0; k16 < BK / 16; ++k16) {
      const int half = Cfg::kPingPong ? k16 % 2 : 0;
      if constexpr (Cfg::kPingPong) {
        if (k16 + 1 < BK / 16) load_fragments(to_x, k16 + 1, 1 - half);
      } else {
        load_fragments(to_x, k16, 0);
      }
#pragma unroll
      for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) mma_bf16_16816(sums[m][n], a[half][m], b[half][n][0], b[half][n][1]);
    }
    __syncthreads();
    if (step + S < steps) copy_step(step + S, stage);
    cp_async_commit();
    stage = stage + 1 == S ? 0 : stage + 1;
  }

  float* const tile = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int m = 0; m < kMTiles; ++m)
#pragma unroll
    for (int n = 0; n < kNTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp_row + m * 16 + lane / 4 + i / 2 * 8, column = warp_column + n * 8 + lane % 4 * 2 + i % 2;
        tile[column * (BM + kTilePad) + row] = sums[m][n][i];
      }
  __syncthreads();
  store_tile<BM, kThreads>(tile, live, column0, epilogue);
}
