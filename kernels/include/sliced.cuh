// Sliced-K MMA of the unified templates, R<rows>T<tokens>W<kwarps>S<stages> (engine-kernels 5.7).
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// A CTA covers R rows x T tokens with W warps; of every 64 W elements of K each warp owns one group, over all rows and tokens.
// Columns past the live ones are zero-filled. x is staged [W][T][64] BF16 and read by ldmatrix; codes lie unpadded. Both are
// swizzled by 16-byte chunks. K order is natural: a lane decodes one byte (two codes) a fragment word. All S stages are primed,
// a stage is refilled after use. Then the W partial tiles are added in order 0 .. W - 1 or, Pairwise, the odd ones into their
// even neighbours first, then 0, 2, 4, ...
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
#include "prefetch.cuh"
#include "rowsplit.cuh"
#include "tile_store.cuh"

template <int R, int T, int W, int S, int MinBlocks, bool Pairwise = false>
struct Sliced {
  static_assert(R % 16 == 0 && T % 8 == 0, "rows and tokens are whole m16n8 tiles");
  static_assert(W == 2 || W == 4 || W == 8, "2, 4 or 8 warps share K");
  static constexpr int kRows = R, kColumns = T, kWarps = W, kStages = S, kMinBlocks = MinBlocks, kThreads = 32 * W;
  static constexpr bool kPairwise = Pairwise;
};

template <typename Cfg, typename Format>
struct SlicedShared {
  static constexpr int kCodes = Cfg::kRows * Cfg::kWarps * 32;
  static constexpr int kHigh = Cfg::kRows * Cfg::kWarps * Format::kHighBytes;
  static constexpr int kX = Cfg::kWarps * Cfg::kColumns * 128;
  static constexpr int kScales = Cfg::kRows * Cfg::kWarps * 2;
  static constexpr int kStage = kCodes + kHigh + kX + kScales;
  static constexpr int kPartial = tile_bytes(Cfg::kRows, Cfg::kColumns);
  static constexpr int kLoop = Cfg::kStages * kStage, kReduce = Cfg::kWarps * kPartial;
  static constexpr int kBytes = kLoop > kReduce ? kLoop : kReduce;
};

// BF16 pair of the exact codes in byte `lane` of `low`; `high` holds their upper bits, first code lowest.
template <typename Format>
__device__ __forceinline__ unsigned decode_byte(unsigned low, unsigned high, unsigned lane) {
  const unsigned byte = byte_permute(low, 0, 0x4440u | lane);
  const unsigned spread = byte * 0x1001u & 0x000F000Fu;
  if constexpr (Format::kBits == 4) {
    return unbias_pair<Format>(spread ^ 0x43084308u);
  } else if constexpr (Format::kBits == 5) {
    return unbias_pair<Format>((spread | ((high & 3u) * 0x00080010u & 0x00100010u)) ^ 0x43104310u);
  } else {
    static_assert(Format::kBits == 6, "sliced kernels read Q4, Q5 and Q6");
    return unbias_pair<Format>((spread | ((high & 15u) * 0x00040010u & 0x00300030u)) ^ 0x43204320u);
  }
}

// `shared` has SlicedShared<Cfg, Format>::kBytes bytes, 16-byte aligned; `rows` maps a CTA row to a row of `w`; x is
// (columns, k), of which the CTA takes columns column0 .. column0 + T - 1 as far as they exist.
template <typename Cfg, typename Format, typename Rows, typename Epilogue>
__device__ __forceinline__ void sliced(unsigned char* shared, RowSplit w, const Rows& rows, int k, const __nv_bfloat16* x,
                                       int columns, int column0, const Epilogue& epilogue) {
  using Shared = SlicedShared<Cfg, Format>;
  constexpr int R = Cfg::kRows, T = Cfg::kColumns, W = Cfg::kWarps, S = Cfg::kStages, kThreads = Cfg::kThreads;
  constexpr int kRowTiles = R / 16, kColumnTiles = T / 8;
  constexpr int kAheadBytes = 1024;  // of the code plane; the high plane in proportion
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int g = lane / 4, l = lane % 4;
  const int live = columns - column0 < T ? columns - column0 : T;
  const int groups = k / 64, slabs = groups / W;
  const int code_pitch = groups * Format::kCodeBytes, high_pitch = groups * Format::kHighBytes;

  // Rows of 2 W chunks; the swizzle spreads the same chunk of eight rows over all banks.
  auto code_at = [](int row, int chunk) {
    return row * (W * 32) + (chunk ^ (W == 2 ? row / 2 % 4 : row % 8)) * 16;
  };
  constexpr int kCodeChunks = 2 * W, kHighBytes = Format::kHighBytes * W;
  constexpr int kHighChunks = kHighBytes == 0 ? 1 : kHighBytes / 16;
  constexpr int kCodeCopies = (R * kCodeChunks + kThreads - 1) / kThreads;
  constexpr int kHighCopies = (R * kHighChunks + kThreads - 1) / kThreads;
  constexpr int kScaleCopies = (R + kThreads - 1) / kThreads;
  unsigned code_from[kCodeCopies], high_from[kHighCopies], scale_from[kScaleCopies];
#pragma unroll
  for (int j = 0; j < kCodeCopies; ++j)
    code_from[j] = static_cast<unsigned>(rows((thread + j * kThreads) / kCodeChunks % R)) * code_pitch + thread % kCodeChunks * 16;
#pragma unroll
  for (int j = 0; j < kHighCopies; ++j)
    high_from[j] = static_cast<unsigned>(rows((thread + j * kThreads) / kHighChunks % R)) * high_pitch + thread % kHighChunks * 16;
#pragma unroll
  for (int j = 0; j < kScaleCopies; ++j) scale_from[j] = static_cast<unsigned>(rows((thread + j * kThreads) % R)) * groups;
  const int x_column = thread / (8 * W), x_chunk = thread % (8 * W);
  static_assert(kThreads % (8 * W) == 0 && T % (kThreads / (8 * W)) == 0, "a thread keeps its 16-byte column of x");

  auto copy_slab = [&](int slab, int stage) {
    unsigned char* const to_codes = shared + stage * Shared::kStage;
    unsigned char* const to_high = to_codes + Shared::kCodes;
    unsigned char* const to_x = to_high + Shared::kHigh;
    unsigned char* const to_scales = to_x + Shared::kX;
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      if (const int i = thread + j * kThreads; i < R * kCodeChunks)
        cp_async_cg(to_codes + code_at(i / kCodeChunks, i % kCodeChunks), w.codes + (code_from[j] + slab * (32 * W)));
    if constexpr (kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int i = thread + j * kThreads; i < R * kHighChunks)
          cp_async_cg(to_high + i * 16, w.high + (high_from[j] + slab * kHighBytes));
#pragma unroll
    for (int j = 0; j < kScaleCopies; ++j)
      if (const int i = thread + j * kThreads; i < R) {
        if constexpr (W == 8)
          cp_async_cg(to_scales + i * 16, w.scales + (scale_from[j] + slab * W));
        else
          cp_async_ca<2 * W>(to_scales + i * (2 * W), w.scales + (scale_from[j] + slab * W));
      }
    constexpr int kColumnStep = kThreads / (8 * W);
#pragma unroll 4
    for (int column = x_column; column < T; column += kColumnStep)
      cp_async_cg_or_zero(to_x + (x_chunk / 8 * T + column) * 128 + (x_chunk % 8 ^ column % 8) * 16,
                          x + (static_cast<unsigned>(column0 + (column < live ? column : live - 1)) * k + slab * (64 * W) +
                               x_chunk * 8),
                          column < live);
  };

  auto prefetch_slab = [&](int slab) {
    if (slab >= slabs) return;
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      if (const int i = thread + j * kThreads; i < R * kCodeChunks && i % kCodeChunks % 8 == 0)
        prefetch_l2(w.codes + (code_from[j] + slab * (32 * W)));
    if constexpr (kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int i = thread + j * kThreads; i < R * kHighChunks && i % kHighChunks == 0)
          prefetch_l2(w.high + (high_from[j] + slab * kHighBytes));
  };

  float sums[kRowTiles][kColumnTiles][4] = {};

  auto multiply_slab = [&](int stage) {
    const unsigned char* const codes = shared + stage * Shared::kStage;
    const unsigned char* const high = codes + Shared::kCodes + warp * Format::kHighBytes;
    const unsigned char* const to_x = codes + Shared::kCodes + Shared::kHigh + warp * (T * 128);
    const __half* const scales =
        reinterpret_cast<const __half*>(codes + Shared::kCodes + Shared::kHigh + Shared::kX) + warp;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      unsigned a[4][4];
      float scale[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = tile * 16 + half * 8 + g;
        unsigned upper[4] = {};  // high bytes of two products each (Q5), or of one (Q6)
        if constexpr (Format::kHighBytes == 8) {
          const uint2 bits = *reinterpret_cast<const uint2*>(high + row * kHighBytes);
          upper[0] = bits.x >> 2 * l, upper[2] = bits.y >> 2 * l;
          upper[1] = upper[0] >> 16, upper[3] = upper[2] >> 16;
        } else if constexpr (Format::kHighBytes == 16) {
          const uint4 bits = *reinterpret_cast<const uint4*>(high + row * kHighBytes);
          upper[0] = bits.x >> 4 * l, upper[1] = bits.y >> 4 * l, upper[2] = bits.z >> 4 * l, upper[3] = bits.w >> 4 * l;
        }
        constexpr int kNext = Format::kHighBytes == 16 ? 16 : 8;  // bits from codes k to codes k + 8
#pragma unroll
        for (int chunk = 0; chunk < 2; ++chunk) {
          const uint4 low = *reinterpret_cast<const uint4*>(codes + code_at(row, warp * 2 + chunk));
          a[chunk * 2][half] = decode_byte<Format>(low.x, upper[chunk * 2], l);
          a[chunk * 2][half + 2] = decode_byte<Format>(low.y, upper[chunk * 2] >> kNext, l);
          a[chunk * 2 + 1][half] = decode_byte<Format>(low.z, upper[chunk * 2 + 1], l);
          a[chunk * 2 + 1][half + 2] = decode_byte<Format>(low.w, upper[chunk * 2 + 1] >> kNext, l);
        }
        scale[half] = __half2float(scales[row * W]);
      }
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        float group[4] = {};
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          unsigned b[4];  // both k halves of two products
          ldmatrix_x4(b, to_x + (n * 8 + lane % 8) * 128 + (pair * 4 + lane / 8 ^ lane % 8) * 16);
          mma_bf16_16816(group, a[pair * 2], b[0], b[1]);
          mma_bf16_16816(group, a[pair * 2 + 1], b[2], b[3]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[tile][n][i] = __fmaf_rn(group[i], scale[i / 2], sums[tile][n][i]);
      }
    }
  };

  constexpr int kAhead = kAheadBytes / (32 * W);
#pragma unroll 1
  for (int slab = 0; slab < kAhead; ++slab) prefetch_slab(slab);
#pragma unroll
  for (int stage = 0; stage < S; ++stage) {
    if (stage < slabs) copy_slab(stage, stage);
    cp_async_commit();
  }
  int stage = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    cp_async_wait<S - 1>();
    __syncthreads();
    prefetch_slab(slab + kAhead);
    multiply_slab(stage);
    __syncthreads();
    if (slab + S < slabs) copy_slab(slab + S, stage);
    cp_async_commit();
    stage = stage + 1 == S ? 0 : stage + 1;
  }

  constexpr int kPartialFloats = Shared::kPartial / 4;
  float* const partials = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        partials[warp * kPartialFloats + (n * 8 + l * 2 + i % 2) * (R + kTilePad) + tile * 16 + g + i / 2 * 8] =
            sums[tile][n][i];
  __syncthreads();
  // One thread an element adds in the order that a single warp would.
  for (int i = thread; i < kPartialFloats; i += kThreads) {
    float total = 0;
#pragma unroll
    for (int from = 0; from < W; from += Cfg::kPairwise ? 2 : 1) {
      float part = partials[from * kPartialFloats + i];
      if constexpr (Cfg::kPairwise) part += partials[(from + 1) * kPartialFloats + i];
      total = from == 0 ? part : total + part;
    }
    partials[i] = total;
  }
  __syncthreads();
  store_tile<R, kThreads>(partials, live, column0, epilogue);
}
