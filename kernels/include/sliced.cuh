// Sliced-K MMA of the unified templates, R<rows>T<tokens>W<kwarps>S<stages> (engine-kernels 5.7).
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// A CTA covers R rows x T tokens with W warps; of every 64 W elements of K each warp owns one group, over all rows and tokens.
// Columns past the live ones are zero-filled. x is staged [W][T][64] BF16 and read by ldmatrix; codes lie unpadded. Both are
// swizzled by 16-byte chunks. K order is natural: a lane decodes one byte (two codes) a fragment word. A warp copies what
// it reads and synchronises with nobody until the end. All S stages are primed, a stage is refilled after use. Then the W partial tiles are added in order 0 .. W - 1 or, Pairwise, the odd ones into their
// even neighbours first, then 0, 2, 4, ...
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
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
  static constexpr int kStage = kCodes + kHigh + kX;
  static constexpr int kPartial = tile_bytes(Cfg::kRows, Cfg::kColumns);
  static constexpr int kLoop = Cfg::kStages * kStage, kReduce = Cfg::kWarps * kPartial;
  static constexpr int kBytes = kLoop > kReduce ? kLoop : kReduce;
};

// BF16 pairs of the exact codes in byte `lane` (0 to 3) of each word of `low`, 32 codes of a row: fragment words of two products.
// `high` holds the upper bits of those 32 codes. The four bytes are gathered first, so that they decode together.
template <typename Format>
__device__ __forceinline__ void decode_bytes(uint4 low, uint2 high, unsigned lane, unsigned (&pairs)[4]) {
  const unsigned select = lane | (lane + 4) << 4;
  const unsigned first = byte_permute(low.x, low.y, select), second = byte_permute(low.z, low.w, select);
  const unsigned bytes = byte_permute(first, second, 0x5410u);
  if constexpr (Format::kBits == 4) {
    decode8_pairs<Format>(bytes, 0, pairs);
  } else {
    constexpr unsigned kCode = ((1u << Format::kBits) - 1) * 0x10001u;
    constexpr unsigned kFlip = (0x4300u | 1u << (Format::kBits - 1)) * 0x10001u;
    // Upper bits of the even codes at bit 4 of each byte, of the odd ones likewise; the rest of a byte is cut off below.
    unsigned even, odd;
    if constexpr (Format::kBits == 5) {
      const unsigned bits = high.x >> 2 * lane;
      even = bits << 4, odd = bits << 3;
    } else {
      static_assert(Format::kBits == 6, "sliced kernels read Q4, Q5 and Q6");
      const unsigned x_y = high.x >> 4 * lane, z_w = high.y >> 4 * lane;
      const unsigned bits = byte_permute(x_y, z_w, 0x6420u);
      even = bits << 4, odd = bits << 2;
    }
    even = (bytes & 0x0F0F0F0Fu) | (even & 0xF0F0F0F0u);
    odd = (bytes >> 4 & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = unbias_pair<Format>((byte_permute(even, odd, 0x4400u + 0x1111u * i) & kCode) ^ kFlip);
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
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int g = lane / 4, l = lane % 4;
  const int live = columns - column0 < T ? columns - column0 : T;
  const int groups = k / 64, slabs = groups / W;
  const int code_pitch = groups * Format::kCodeBytes, high_pitch = groups * Format::kHighBytes;

  // Rows of 2 W chunks; the swizzle spreads the same chunk of eight rows over all banks.
  auto code_at = [](int row, int chunk) {
    return row * (W * 32) + (chunk ^ (W == 2 ? row / 2 % 4 : row % 8)) * 16;
  };
  constexpr int kHighBytes = Format::kHighBytes * W;
  constexpr int kCodeCopies = R * 2 / 32, kHighCopies = (R + 31) / 32;
  unsigned code_from[kCodeCopies], high_from[kHighCopies];
#pragma unroll
  for (int j = 0; j < kCodeCopies; ++j)
    code_from[j] = static_cast<unsigned>(rows(lane / 2 + j * 16)) * code_pitch + warp * 32 + lane % 2 * 16;
#pragma unroll
  for (int j = 0; j < kHighCopies; ++j)
    high_from[j] = static_cast<unsigned>(rows((lane + j * 32) % R)) * high_pitch + warp * Format::kHighBytes;
  const int x_column = lane / 8, x_chunk = lane % 8;

  auto copy_slab = [&](int slab, int stage) {
    unsigned char* const to_codes = shared + stage * Shared::kStage;
    unsigned char* const to_high = to_codes + Shared::kCodes;
    unsigned char* const to_x = to_high + Shared::kHigh;
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      cp_async_cg(to_codes + code_at(lane / 2 + j * 16, warp * 2 + lane % 2), w.codes + (code_from[j] + slab * (32 * W)));
    if constexpr (kHighBytes > 0)
#pragma unroll
      for (int j = 0; j < kHighCopies; ++j)
        if (const int row = lane + j * 32; (j + 1) * 32 <= R || row < R)
          cp_async_ca<Format::kHighBytes>(to_high + row * kHighBytes + warp * Format::kHighBytes,
                                          w.high + (high_from[j] + slab * kHighBytes));
#pragma unroll
    for (int column = x_column; column < x_column + T; column += 4)
      cp_async_cg_or_zero(to_x + (warp * T + column) * 128 + (x_chunk ^ column % 8) * 16,
                          x + (static_cast<unsigned>(column0 + (column < live ? column : live - 1)) * k +
                               (slab * W + warp) * 64 + x_chunk * 8),
                          column < live);
  };

  // Scales go from global memory to the lanes that need them, a slab ahead.
  unsigned scale_from[kRowTiles][2];
  __half scales[kRowTiles][2], next_scales[kRowTiles][2];
#pragma unroll
  for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      scale_from[tile][half] = static_cast<unsigned>(rows(tile * 16 + half * 8 + g)) * groups + warp;
  auto read_scales = [&](int slab) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) next_scales[tile][half] = __ldg(w.scales + (scale_from[tile][half] + slab * W));
  };
  auto take_scales = [&](int slab) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) scales[tile][half] = next_scales[tile][half];
    if (slab + 1 < slabs) read_scales(slab + 1);
  };

  float sums[kRowTiles][kColumnTiles][4] = {};

  auto multiply_slab = [&](int stage) {
    const unsigned char* const codes = shared + stage * Shared::kStage;
    const unsigned char* const high = codes + Shared::kCodes + warp * Format::kHighBytes;
    const unsigned char* const to_x = codes + Shared::kCodes + Shared::kHigh + warp * (T * 128);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      unsigned a[4][4];
      float scale[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = tile * 16 + half * 8 + g;
        uint2 upper[2] = {};  // of the first and the second 32 codes
        if constexpr (Format::kHighBytes == 8) {
          const uint2 bits = *reinterpret_cast<const uint2*>(high + row * kHighBytes);
          upper[0].x = bits.x, upper[1].x = bits.y;
        } else if constexpr (Format::kHighBytes == 16) {
          const uint4 bits = *reinterpret_cast<const uint4*>(high + row * kHighBytes);
          upper[0] = make_uint2(bits.x, bits.y), upper[1] = make_uint2(bits.z, bits.w);
        }
#pragma unroll
        for (int chunk = 0; chunk < 2; ++chunk) {
          unsigned pairs[4];
          decode_bytes<Format>(*reinterpret_cast<const uint4*>(codes + code_at(row, warp * 2 + chunk)), upper[chunk], l, pairs);
          a[chunk * 2][half] = pairs[0], a[chunk * 2][half + 2] = pairs[1];
          a[chunk * 2 + 1][half] = pairs[2], a[chunk * 2 + 1][half + 2] = pairs[3];
        }
        scale[half] = __half2float(scales[tile][half]);
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

  read_scales(0);
#pragma unroll
  for (int stage = 0; stage < S; ++stage) {
    if (stage < slabs) copy_slab(stage, stage);
    cp_async_commit();
  }
  int stage = 0;
#pragma unroll 1
  for (int slab = 0; slab < slabs; ++slab) {
    cp_async_wait<S - 1>();
    __syncwarp();
    take_scales(slab);
    multiply_slab(stage);
    __syncwarp();
    if (slab + S < slabs) copy_slab(slab + S, stage);
    cp_async_commit();
    stage = stage + 1 == S ? 0 : stage + 1;
  }
  cp_async_wait<0>();
  __syncthreads();

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
