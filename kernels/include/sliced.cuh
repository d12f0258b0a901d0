// Sliced-K MMA of the unified templates, R<rows>T<tokens>W<kwarps>S<stages> (engine-kernels 5.7).
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// A CTA covers R rows x T tokens with W warps; of every 64 W elements of K each warp owns one group, over all rows and tokens.
// Columns past the live ones are zero. x is staged [W][T][64] BF16 and read by ldmatrix; codes lie unpadded. Both are swizzled
// by 16-byte chunks. K order is natural: a lane decodes one byte (two codes) a fragment word. All S stages are primed, a stage
// is refilled after use. Then the W partial tiles are added in order 0 .. W - 1 or, Pairwise, the odd ones into their even
// neighbours first, then 0, 2, 4, ...
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
  static constexpr int kScales = Cfg::kRows * Cfg::kWarps * 2;
  static constexpr int kStage = kCodes + kHigh + kX + kScales;
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
    even = select_bits(bytes, even, 0x0F0F0F0Fu);
    odd = select_bits(bytes >> 4, odd, 0x0F0F0F0Fu);
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
  // Who copies together: with two stages the CTA, in chunks of 16 bytes, consecutive threads along a row, so that a request covers
  // whole lines. With one stage every warp waits for its copies a while, and warps that wait for none but their own take turns.
  constexpr bool kAlone = S == 1;
  constexpr int kMembers = kAlone ? 32 : kThreads, kShare = kAlone ? 1 : W;  // groups of a slab that the members copy
  const int member = kAlone ? lane : thread, first_group = kAlone ? warp : 0;
  constexpr int kCodeChunks = 2 * kShare, kCodeCopies = R / 16;
  const int code_row = member / kCodeChunks, code_chunk = first_group * 2 + member % kCodeChunks;
  // What a thread copies, at slab 0 and moved on with the slabs; `at` slabs further on is a constant offset.
  const unsigned char* code_from[kCodeCopies];
#pragma unroll
  for (int j = 0; j < kCodeCopies; ++j)
    code_from[j] = w.codes + (static_cast<unsigned>(rows(code_row + j * 16)) * code_pitch + code_chunk * 16);
  constexpr int kHighBytes = Format::kHighBytes * W, kHighChunk = kAlone ? Format::kHighBytes : 16;
  constexpr int kHighChunks = kHighBytes == 0 ? 1 : Format::kHighBytes * kShare / kHighChunk;
  constexpr int kHighCopies = kHighBytes == 0 ? 0 : R * kHighChunks;
  static_assert(kHighCopies <= kMembers && R <= kMembers, "one copy a thread covers the high plane, one the scales");
  const int high_row = member / kHighChunks % R, high_at = first_group * Format::kHighBytes + member % kHighChunks * kHighChunk;
  const unsigned char* high_from = w.high + (static_cast<unsigned>(rows(high_row)) * high_pitch + high_at);
  // Scales of a row each by the last threads, which have the least else to do.
  const int scale_row = thread - (kThreads - R);
  const __half* scale_from = w.scales + (scale_row < 0 ? 0 : static_cast<unsigned>(rows(scale_row)) * groups);
  const int x_column = member / (8 * kShare), x_chunk = first_group * 8 + member % (8 * kShare);
  unsigned x_from = static_cast<unsigned>(column0 + x_column) * k + x_chunk * 8;
  auto x_to = [&](int j) {  // of column x_column + 4 j
    const int column = x_column + 4 * j;
    return (x_chunk / 8 * T + column) * 128 + (x_chunk % 8 ^ column % 8) * 16;
  };
  auto move_on = [&] {
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j) code_from[j] += S * (32 * W);
    if constexpr (kHighCopies > 0) high_from += S * kHighBytes;
    if constexpr (!kAlone) scale_from += S * W;
    x_from += S * (W * 64);
  };

  const unsigned shared_at = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  auto copy_slab = [&](int at, int stage) {
    const unsigned to_codes = shared_at + stage * Shared::kStage, to_high = to_codes + Shared::kCodes;
    const unsigned to_x = to_high + Shared::kHigh, to_scales = to_x + Shared::kX;
#pragma unroll
    for (int j = 0; j < kCodeCopies; ++j)
      cp_async_cg_if(to_codes + code_at(code_row + j * 16, code_chunk), code_from[j] + at * (32 * W), true);
    if constexpr (kHighCopies > 0) {
      if constexpr (kHighChunk == 16)
        cp_async_cg_if(to_high + high_row * kHighBytes + high_at, high_from + at * kHighBytes, member < kHighCopies);
      else
        cp_async_ca_if<kHighChunk>(to_high + high_row * kHighBytes + high_at, high_from + at * kHighBytes, member < kHighCopies);
    }
    if constexpr (!kAlone) {
      if constexpr (W == 8)
        cp_async_cg_if(to_scales + scale_row * (2 * W), scale_from + at * W, scale_row >= 0);
      else
        cp_async_ca_if<2 * W>(to_scales + scale_row * (2 * W), scale_from + at * W, scale_row >= 0);
    }
#pragma unroll
    for (int j = 0; j < T / 4; ++j)
      cp_async_cg_if(to_x + x_to(j), x + (x_from + static_cast<unsigned>(4 * j) * k + at * (W * 64)), x_column + 4 * j < live);
  };

  // With one stage scales go from global memory to the lanes that need them, a slab ahead.
  __half next_scales[kRowTiles][2];
  unsigned scales_from[kRowTiles][2];
#pragma unroll
  for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      scales_from[tile][half] = static_cast<unsigned>(rows(tile * 16 + half * 8 + g)) * groups + warp;
  auto read_scales = [&](int slab) {
    if (slab >= slabs) return;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        next_scales[tile][half] = __ldg(w.scales + (scales_from[tile][half] + slab * W));
  };

  float sums[kRowTiles][kColumnTiles][4] = {};

  // What a lane reads of a slab, all of it before the buffer is refilled.
  struct Fragments {
    uint4 low[kRowTiles][2][2];
    uint2 high[kRowTiles][2][2];
    __half scale[kRowTiles][2];
    unsigned x[kColumnTiles][2][4];
  };

  auto read_fragments = [&](int stage, Fragments& f) {
    const unsigned char* const codes = shared + stage * Shared::kStage;
    const unsigned char* const high = codes + Shared::kCodes + warp * Format::kHighBytes;
    const unsigned char* const to_x = codes + Shared::kCodes + Shared::kHigh + warp * (T * 128);
    const __half* const scales = reinterpret_cast<const __half*>(codes + Shared::kCodes + Shared::kHigh + Shared::kX);
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = tile * 16 + half * 8 + g;
        f.scale[tile][half] = kAlone ? next_scales[tile][half] : scales[row * W + warp];
        uint2(&upper)[2] = f.high[tile][half];  // of the first and the second 32 codes
        upper[0] = upper[1] = make_uint2(0, 0);
        if constexpr (Format::kHighBytes == 8) {
          const uint2 bits = *reinterpret_cast<const uint2*>(high + row * kHighBytes);
          upper[0].x = bits.x, upper[1].x = bits.y;
        } else if constexpr (Format::kHighBytes == 16) {
          const uint4 bits = *reinterpret_cast<const uint4*>(high + row * kHighBytes);
          upper[0] = make_uint2(bits.x, bits.y), upper[1] = make_uint2(bits.z, bits.w);
        }
#pragma unroll
        for (int chunk = 0; chunk < 2; ++chunk)
          f.low[tile][half][chunk] = *reinterpret_cast<const uint4*>(codes + code_at(row, warp * 2 + chunk));
      }
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)  // both k halves of two products
        ldmatrix_x4(f.x[n][pair], to_x + (n * 8 + lane % 8) * 128 + (pair * 4 + lane / 8 ^ lane % 8) * 16);
  };

  auto multiply = [&](const Fragments& f) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      unsigned a[4][4];
      float scale[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int chunk = 0; chunk < 2; ++chunk) {
          unsigned pairs[4];
          decode_bytes<Format>(f.low[tile][half][chunk], f.high[tile][half][chunk], l, pairs);
          a[chunk * 2][half] = pairs[0], a[chunk * 2][half + 2] = pairs[1];
          a[chunk * 2 + 1][half] = pairs[2], a[chunk * 2 + 1][half + 2] = pairs[3];
        }
        scale[half] = __half2float(f.scale[tile][half]);
      }
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        float group[4] = {};
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const unsigned(&b)[4] = f.x[n][pair];
          mma_bf16_16816(group, a[pair * 2], b[0], b[1]);
          mma_bf16_16816(group, a[pair * 2 + 1], b[2], b[3]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[tile][n][i] = __fmaf_rn(group[i], scale[i / 2], sums[tile][n][i]);
      }
    }
  };

#pragma unroll
  for (int stage = 0; stage < S; ++stage)  // columns past the live ones are zero once and for all
    for (int j = 0; j < T / 4; ++j)
      if (x_column + 4 * j >= live)
        *reinterpret_cast<uint4*>(shared + stage * Shared::kStage + Shared::kCodes + Shared::kHigh + x_to(j)) =
            make_uint4(0, 0, 0, 0);
  if constexpr (kAlone) {
    read_scales(0);
    copy_slab(0, 0);
    cp_async_commit();
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
      cp_async_wait<0>();
      __syncwarp();
      Fragments fragments;
      read_fragments(0, fragments);
      const auto refill = [&] {
        __syncwarp();
        move_on();
        if (slab + 1 < slabs) copy_slab(0, 0);
        cp_async_commit();
        read_scales(slab + 1);
      };
      // Before the products; but with two row tiles the registers for that would cost a CTA on every multiprocessor.
      if constexpr (kRowTiles == 1) refill();
      multiply(fragments);
      if constexpr (kRowTiles > 1) refill();
    }
  } else {
#pragma unroll
    for (int stage = 0; stage < S; ++stage) {
      if (stage < slabs) copy_slab(stage, stage);
      cp_async_commit();
    }
#pragma unroll 1
    for (int first = 0; first < slabs; first += S, move_on()) {
#pragma unroll
      for (int stage = 0; stage < S; ++stage) {  // unrolled, so that a stage's addresses are constants
        const int slab = first + stage;
        if (stage > 0 && slab >= slabs) break;
        cp_async_wait<S - 1>();
        __syncthreads();
        Fragments fragments;
        read_fragments(stage, fragments);
        __syncthreads();
        if (slab + S < slabs) copy_slab(stage + S, stage);
        cp_async_commit();
        multiply(fragments);
      }
    }
    cp_async_wait<0>();
  }
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
