// Tiled BF16-MMA GEMM over row-split weights (engine-kernels 5.1).
//
//   sum[t][r] = sum_k bf16(scale(r, k/64) * code(r, k)) * x[t][k],  FP32 sums over all of K
//
// One CTA computes BM weight rows x BN token columns, BK elements of K a step. Warp tiles are WM x WN of m16n8k16 products;
// threads = 32 (BM / WM) (BN / WN). S cp.async buffers hold {x BN x BK BF16, codes, high bytes, scales}; one more buffer holds
// the decoded BM x BK weights. A step: store the decoded weights, barrier, refill, multiply, barrier. While a warp multiplies it
// decodes its share of the next step into registers, so the integer work fills the gaps between the matrix products (decoding
// between two barriers of its own left one CTA per multiprocessor waiting most of the time: 0.6 us a step on an H200). For that
// the weights' copies run one step ahead of those of x.
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

// A scale as the sum of two BF16 numbers, each twice in a word: its upper eight bits and the rest.
struct SplitScale {
  unsigned upper, rest;
};

__device__ __forceinline__ SplitScale split_scale(__half scale) {
  const float value = __half2float(scale);
  const unsigned upper = pack_bf16(value, value);
  const float rest = value - bf16_low(upper);
  return {upper, pack_bf16(rest, rest)};
}

// bf16(scale * code) of eight codes: the exact codes times both parts of the scale. The only rounding that can be seen is the
// last one, that of the small product is under 2^-16 of the result.
template <typename Format>
__device__ __forceinline__ uint4 decode8_scaled(unsigned low, unsigned high, SplitScale scale) {
  unsigned pairs[4];
  decode8_pairs<Format>(low, high, pairs);
#pragma unroll
  for (unsigned& pair : pairs) pair = bf16x2_fma(pair, scale.upper, bf16x2_fma(pair, scale.rest, 0x80008000u));
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// Words (4, 8 or 16 bytes) of shared memory as an array of 32-bit words.
template <int Words>
__device__ __forceinline__ void read_words(const void* from, unsigned (&words)[Words]) {
  if constexpr (Words == 1) {
    words[0] = *static_cast<const unsigned*>(from);
  } else if constexpr (Words == 2) {
    const uint2 v = *static_cast<const uint2*>(from);
    words[0] = v.x, words[1] = v.y;
  } else {
    const uint4 v = *static_cast<const uint4*>(from);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  }
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
    const int column = (thread + i * kThreads) / kXChunks;
    x_from[i] = static_cast<unsigned>(column0 + column) * k + thread % kXChunks * 8;
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

  // Columns past the last live one are not copied: what lies there goes into sums that are never stored. (Copying the last
  // live one again sent every CTA's requests to the same lines of the L2, and a wide tile took longer for 8 columns than for 64.)
  auto copy_x = [&](int step, int stage) {
    unsigned char* const to_x = stage_at(stage);
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      if (const int i = thread + j * kThreads; i / kXChunks < live)
        copy16(to_x + swizzled<BK>(i / kXChunks, i % kXChunks), x + (x_from[j] + step * BK));
  };

  auto copy_weights = [&](int step, int stage) {
    unsigned char* const to_codes = stage_at(stage) + Shared::kX;
    unsigned char* const to_high = to_codes + Shared::kCodes;
    unsigned char* const to_scales = to_high + Shared::kHigh;
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      if (const int i = thread + j * kThreads; (j + 1) * kThreads <= BM * kCodeChunks || i < BM * kCodeChunks)
        copy16(to_codes + i * 16, w.codes + (code_from[j] + step * (kGroups * 32)));
    if constexpr (Format::kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int i = thread + j * kThreads; (j + 1) * kThreads <= BM * kGroups || i < BM * kGroups)
          cp_async_ca<Format::kHighBytes>(to_high + i * Format::kHighBytes,
                                          w.high + (high_from[j] + step * (kGroups * Format::kHighBytes)));
#pragma unroll
    for (int j = 0; j < kScaleCopies; ++j)
      if (const int i = thread + j * kThreads; (j + 1) * kThreads <= BM || i < BM) {
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
      if (const int i = thread + j * kThreads; ((j + 1) * kThreads <= BM * kCodeChunks || i < BM * kCodeChunks) && i % kCodeChunks == 0)
        prefetch_l2(w.codes + (code_from[j] + step * (kGroups * 32)));
    if constexpr (Format::kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int i = thread + j * kThreads; ((j + 1) * kThreads <= BM * kGroups || i < BM * kGroups) && i % kGroups == 0)
          prefetch_l2(w.high + (high_from[j] + step * (kGroups * Format::kHighBytes)));
  };

  // A thread decodes kDecodes times kUnit neighbouring words of eight codes, which share a scale.
  constexpr int kWords = BK / 8, kUnit = BM * kWords <= kThreads ? 1 : BM * kWords <= 2 * kThreads ? 2 : 4;
  constexpr int kUnits = BM * kWords / kUnit, kDecodes = ceil_div(kUnits, kThreads), kAllWords = kDecodes * kUnit;
  uint4 decoded[kDecodes][kUnit];
  unsigned low[kDecodes][kUnit], upper[kDecodes][kUnit];  // `upper` from bit 0 up; bits above are ignored
  __half scale[kDecodes];

  // Read what this thread decodes of a step.
  auto read_step = [&](int step, int stage) {
    const unsigned char* const codes = stage_at(stage) + Shared::kX;
    const unsigned char* const high = codes + Shared::kCodes;
    const __half* const scales = reinterpret_cast<const __half*>(high + Shared::kHigh);
#pragma unroll
    for (int j = 0; j < kDecodes; ++j)
      if (const int i = thread + j * kThreads; (j + 1) * kThreads <= kUnits || i < kUnits) {
        const int row = i / (kWords / kUnit), word = i % (kWords / kUnit) * kUnit;
        read_words(codes + i * (kUnit * 4), low[j]);
        if constexpr (Format::kHighBytes == 8) {
          if constexpr (kUnit == 1) upper[j][0] = high[i];
          if constexpr (kUnit == 2) upper[j][0] = reinterpret_cast<const unsigned short*>(high)[i];
          if constexpr (kUnit == 4) upper[j][0] = reinterpret_cast<const unsigned*>(high)[i];
#pragma unroll
          for (int u = 1; u < kUnit; ++u) upper[j][u] = upper[j][0] >> 8 * u;
        } else if constexpr (Format::kHighBytes == 16) {
          if constexpr (kUnit == 1) {
            upper[j][0] = reinterpret_cast<const unsigned short*>(high)[i];
          } else {
            unsigned halves[kUnit / 2];
            read_words(high + i * (kUnit * 2), halves);
#pragma unroll
            for (int u = 0; u < kUnit; ++u) upper[j][u] = halves[u / 2] >> u % 2 * 16;
          }
        }
        scale[j] = scales[kGroups == 2 ? row * 2 + word / 8 : Cfg::kScalePair ? row * 2 + step % 2 : row];
      }
  };

  // Decode words [from, to) of the kAllWords that were read last.
  auto decode_words = [&](int from, int to) {
#pragma unroll
    for (int j = 0; j < kDecodes; ++j)
#pragma unroll
      for (int u = 0; u < kUnit; ++u)
        if (from <= j * kUnit + u && j * kUnit + u < to)
          decoded[j][u] = decode8_scaled<Format>(low[j][u], Format::kHighBytes > 0 ? upper[j][u] : 0, split_scale(scale[j]));
  };

  auto store_decoded = [&] {
#pragma unroll
    for (int j = 0; j < kDecodes; ++j)
      if (const int i = thread + j * kThreads; (j + 1) * kThreads <= kUnits || i < kUnits) {
#pragma unroll
        for (int u = 0; u < kUnit; ++u)
          *reinterpret_cast<uint4*>(weights + swizzled<BK>(i / (kWords / kUnit), i % (kWords / kUnit) * kUnit + u)) =
              decoded[j][u];
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
  // Two stages keep too little on its way; from three on the hints cost more than they bring (measured on an H200).
  constexpr bool kPrefetch = S == 2;
#pragma unroll 1
  for (int step = 0; kPrefetch && step < kAhead; step += kLineSteps) prefetch_step(step);
  copy_weights(0, 0);
#pragma unroll
  for (int step = 0; step < S - 1; ++step) {
    if (step < steps) copy_x(step, step);
    if (step + 1 < steps) copy_weights(step + 1, step + 1);
    cp_async_commit();
  }
  cp_async_wait<S - 2>();
  __syncthreads();
  read_step(0, 0);
  decode_words(0, kAllWords);
  int stage = 0;
  for (int step = 0; step < steps; ++step) {
    const int next = stage + 1 == S ? 0 : stage + 1;
    store_decoded();
    cp_async_wait<S - 2>();
    // The decoded tile, x of this step and the weights of the next are there for all; buffers read before may be refilled.
    __syncthreads();
    // First what the products wait for. Past the end this reads what is left in the buffer, and nobody uses it.
    const unsigned char* const to_x = stage_at(stage);
    read_step(step + 1, next);
    load_fragments(to_x, 0, 0);
    if (step + S - 1 < steps) copy_x(step + S - 1, stage == 0 ? S - 1 : stage - 1);
    if (step + S < steps) copy_weights(step + S, stage);
    cp_async_commit();
    if (kPrefetch && step % kLineSteps == 0) prefetch_step(step + kAhead);
    constexpr int kProducts = BK / 16;
#pragma unroll
    for (int k16 = 0; k16 < kProducts; ++k16) {
      const int half = Cfg::kPingPong ? k16 % 2 : 0;
      if constexpr (Cfg::kPingPong) {
        if (k16 + 1 < kProducts) load_fragments(to_x, k16 + 1, 1 - half);
      } else if (k16 > 0) {
        load_fragments(to_x, k16, 0);
      }
      decode_words(k16 * kAllWords / kProducts, (k16 + 1) * kAllWords / kProducts);
#pragma unroll
      for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) mma_bf16_16816(sums[m][n], a[half][m], b[half][n][0], b[half][n][1]);
    }
    __syncthreads();
    stage = next;
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
