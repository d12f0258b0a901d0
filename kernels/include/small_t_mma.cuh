// Small-T MMA with a shared-memory layout (engine-kernels 5.5; at KWarps 8 and one stage also the K-split MMA of 5.3).
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// 256 threads = 8 warps: KWarps along K, 8 / KWarps along rows, each warp TilesPerWarp tiles of 16 rows. A stage holds 64 KWarps
// elements of K; warp w owns group w mod KWarps of it. Up to XCols token columns (a multiple of 8, or 4: one n8 tile of which
// four columns are never stored); only live columns are copied, what the others hold goes into sums that are never stored.
//
// All threads copy a slab together, consecutive threads along a row, so that a request covers whole lines: where every warp copied
// its own 32 bytes of a row, the load units had four to eight times the lines to look up. What a lane reads of a slab it reads
// at once, so that the refill comes before the products. (Barriers in shared memory, on which a warp arrives before it waits,
// were no faster in the staged forms.)
//
// K order: lane l (of four) owns k = 16 l .. 16 l + 15 of its group, one 64-bit word of codes and 32 bytes of x; products 0
// and 1 take the first eight of them, 2 and 3 the others, in whatever order the codes decode cheapest.
#pragma once
#include "barrier.cuh"
#include "cp_async.cuh"
#include "mma.cuh"
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
  static constexpr int kCodes = Cfg::kRows * kCodePitch;
  static constexpr int kHigh = Cfg::kRows * kHighPitch;
  static constexpr int kX = Cfg::kKWarps * Cfg::kXCols * kXPitch;
  static constexpr int kScales = Cfg::kRows * Cfg::kKWarps * 2;
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
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int k_warp = warp % KW, row_warp = warp / KW;
  const int g = lane / 4, l = lane % 4;
  const int groups = k / 64, slabs = groups / KW;
  const int code_pitch = groups * Format::kCodeBytes, high_pitch = groups * Format::kHighBytes;

  // Chunks of 16 bytes, consecutive threads along a row, so that a request covers whole lines: a request for each row's 32 bytes
  // cost the load units as much as one for 128.
  constexpr int kCodeChunks = 2 * KW, kCodeCopies = Cfg::kRows * kCodeChunks / kThreads, kCodeStep = kThreads / kCodeChunks;
  static_assert(kCodeCopies * kThreads == Cfg::kRows * kCodeChunks, "every thread copies the same number of code chunks");
  // What a thread copies, at slab 0 and moved on with the slabs; `at` slabs further on is a constant offset.
  const unsigned char* code_from[kCodeCopies];
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i)
    code_from[i] = w.codes + (static_cast<unsigned>(rows(thread / kCodeChunks + i * kCodeStep)) * code_pitch +
                              thread % kCodeChunks * 16);
  const int code_to = thread / kCodeChunks * Shared::kCodePitch + thread % kCodeChunks * 16;
  // The first threads copy high bytes, some of those from the 128th on the scales of a row each.
  constexpr int kSlabHigh = Format::kHighBytes * KW, kSlabScales = 2 * KW;
  constexpr int kHighChunks = kSlabHigh / 16, kHighCopies = Cfg::kRows * kHighChunks;
  constexpr int kScaleThread = 128;
  static_assert(kHighCopies <= kScaleThread && Cfg::kRows <= kThreads - kScaleThread, "one copy a thread covers both planes");
  const bool has_high = thread < kHighCopies, has_scale = thread >= kScaleThread && thread < kScaleThread + Cfg::kRows;
  const unsigned char* small_from = w.codes;  // high bytes or scales
  int small_to = 0, small_step = 0;
  if (has_scale) {
    const int row = thread - kScaleThread;
    small_from = reinterpret_cast<const unsigned char*>(w.scales + static_cast<unsigned>(rows(row)) * groups);
    small_to = Shared::kCodes + Shared::kHigh + Shared::kX + row * kSlabScales;
    small_step = kSlabScales;
  } else if (has_high) {
    if constexpr (kHighCopies > 0) {
      const int row = thread / kHighChunks, chunk = thread % kHighChunks * 16;
      small_from = w.high + (static_cast<unsigned>(rows(row)) * high_pitch + chunk);
      small_to = Shared::kCodes + row * Shared::kHighPitch + chunk;
      small_step = kSlabHigh;
    }
  }
  constexpr int kXChunks = 8 * KW, kColumnStep = kThreads / kXChunks;
  constexpr int kXCopies = (Cfg::kXCols + kColumnStep - 1) / kColumnStep;
  const int x_column = thread / kXChunks, x_chunk = thread % kXChunks;
  const int x_to =
      Shared::kCodes + Shared::kHigh + (x_chunk / 8 * Cfg::kXCols + x_column) * Shared::kXPitch + x_chunk % 8 * 16;
  const __nv_bfloat16* x_from = x + (static_cast<unsigned>(x_column) * k + x_chunk * 8);
  const unsigned x_step = kColumnStep * k;
  auto has_x = [&](int j) {
    const int column = x_column + j * kColumnStep;
    return column < columns && (Cfg::kXCols % kColumnStep == 0 || column < Cfg::kXCols);
  };
  auto move_on = [&](int count) {
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i) code_from[i] += count * kSlabBytes;
    small_from += count * small_step;
    x_from += count * (KW * 64);
  };

  const unsigned shared_at = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  auto copy_slab = [&](int at, int stage) {
    const unsigned to = shared_at + stage * Shared::kStage;
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i)
      cp_async_cg_if(to + code_to + i * kCodeStep * Shared::kCodePitch, code_from[i] + at * kSlabBytes, true);
    if constexpr (kSlabScales == 16) {
      cp_async_cg_if(to + small_to, small_from + at * small_step, has_scale || has_high);
    } else {
      cp_async_ca_if<kSlabScales>(to + small_to, small_from + at * kSlabScales, has_scale);
      if constexpr (kHighCopies > 0) cp_async_cg_if(to + small_to, small_from + at * kSlabHigh, has_high);
    }
    // Through L1: the two or three CTAs of a multiprocessor read the same x at about the same time.
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      cp_async_ca_if<16>(to + x_to + j * kColumnStep * Shared::kXPitch, x_from + (j * x_step + at * (KW * 64)), has_x(j));
  };

  // Codes decode cheapest in pairs (0,4) (1,5) ...; x follows on its way to shared memory. With more columns, and where x goes
  // there by itself, the natural pairs are no dearer.
  constexpr bool kStrided = S == 1 && kColumnTiles <= 2;
  auto strided = [](uint4 values) {
    const unsigned natural[4] = {values.x, values.y, values.z, values.w};
    unsigned pairs[4];
    stride_pairs(natural, pairs);
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  };

  // One stage: the next slab is on its way to registers while this one is multiplied.
  struct Slab {
    uint4 code[kCodeCopies], small, x[kXCopies];
  };

  // A slab, and move on.
  auto read_slab = [&](Slab& to) {
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i) to.code[i] = load_once_16(code_from[i]);
    if constexpr (kSlabScales == 16) {
      load_16_if(to.small, small_from, has_scale || has_high);
    } else {
      if (has_scale) {
        if constexpr (kSlabScales == 8)
          reinterpret_cast<uint2&>(to.small) = __ldg(reinterpret_cast<const uint2*>(small_from));
        else
          to.small.x = __ldg(reinterpret_cast<const unsigned*>(small_from));
      }
      if constexpr (kHighCopies > 0) load_16_if(to.small, small_from, has_high);
    }
#pragma unroll
    for (int j = 0; j < kXCopies; ++j) load_16_if(to.x[j], x_from + j * x_step, has_x(j));
    move_on(1);
  };

  auto store_slab = [&](const Slab& from) {
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i)
      *reinterpret_cast<uint4*>(shared + code_to + i * kCodeStep * Shared::kCodePitch) = from.code[i];
    if constexpr (kSlabScales == 16) {
      if (has_scale || has_high) *reinterpret_cast<uint4*>(shared + small_to) = from.small;
    } else {
      if (has_scale) {
        if constexpr (kSlabScales == 8)
          *reinterpret_cast<uint2*>(shared + small_to) = reinterpret_cast<const uint2&>(from.small);
        else
          *reinterpret_cast<unsigned*>(shared + small_to) = from.small.x;
      }
      if constexpr (kHighCopies > 0)
        if (has_high) *reinterpret_cast<uint4*>(shared + small_to) = from.small;
    }
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      if (has_x(j))
        *reinterpret_cast<uint4*>(shared + x_to + j * kColumnStep * Shared::kXPitch) =
            kStrided ? strided(from.x[j]) : from.x[j];
  };

  float sums[kTiles][kColumnTiles][4] = {};

  // What a lane reads of a slab, all of it before the buffer is refilled.
  struct Fragments {
    uint2 low[kTiles][2];
    unsigned high[kTiles][2];
    __half scale[kTiles][2];
    uint4 x[kColumnTiles][2];
  };

  auto read_fragments = [&](int stage, Fragments& f) {
    const unsigned char* const codes = shared + stage * Shared::kStage + k_warp * 32 + l * 8;
    const unsigned char* const high =
        shared + stage * Shared::kStage + Shared::kCodes + (k_warp * 4 + l) * (Format::kHighBytes / 4);
    const unsigned char* const to_x = shared + stage * Shared::kStage + Shared::kCodes + Shared::kHigh;
    // XCols 4: lanes of columns 4 to 7 read columns 0 to 3 again.
    const unsigned char* const x_at =
        to_x + (k_warp * Cfg::kXCols + (Cfg::kXCols == 4 ? g % 4 : g)) * Shared::kXPitch + l * 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (row_warp * kTiles + tile) * 16 + half * 8 + g;
        f.low[tile][half] = *reinterpret_cast<const uint2*>(codes + row * Shared::kCodePitch);
        f.scale[tile][half] =
            reinterpret_cast<const __half*>(to_x + Shared::kX)[row * KW + k_warp];
        f.high[tile][half] = 0;
        if constexpr (Format::kHighBytes == 8)
          f.high[tile][half] = *reinterpret_cast<const unsigned short*>(high + row * Shared::kHighPitch);
        else if constexpr (Format::kHighBytes == 16)
          f.high[tile][half] = *reinterpret_cast<const unsigned*>(high + row * Shared::kHighPitch);
      }
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      f.x[n][0] = *reinterpret_cast<const uint4*>(x_at + n * 8 * Shared::kXPitch);
      f.x[n][1] = *reinterpret_cast<const uint4*>(x_at + n * 8 * Shared::kXPitch + 16);
    }
  };

  auto multiply = [&](const Fragments& f) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float scale[2] = {__half2float(f.scale[tile][0]), __half2float(f.scale[tile][1])};
      unsigned a[4][4];  // by product, then fragment word
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int word = 0; word < 2; ++word) {
          unsigned pairs[4];
          const unsigned low = word ? f.low[tile][half].y : f.low[tile][half].x;
          const unsigned high = f.high[tile][half] >> word * Format::kHighBytes;
          if constexpr (kStrided)
            decode8_strided<Format>(low, high, pairs);
          else
            decode8_pairs<Format>(low, high, pairs);
          a[word * 2][half] = pairs[0], a[word * 2][half + 2] = pairs[1];
          a[word * 2 + 1][half] = pairs[2], a[word * 2 + 1][half + 2] = pairs[3];
        }
      }
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        const uint4 x0 = f.x[n][0], x1 = f.x[n][1];
        float group[4] = {}, second[4] = {};
        mma_bf16_16816(group, a[0], x0.x, x0.y);
        if constexpr (kColumnTiles == 1) {
          // Two chains of products: nothing else would fill the wait for the first result.
          mma_bf16_16816(second, a[2], x1.x, x1.y);
          mma_bf16_16816(group, a[1], x0.z, x0.w);
          mma_bf16_16816(second, a[3], x1.z, x1.w);
#pragma unroll
          for (int i = 0; i < 4; ++i) group[i] += second[i];
        } else {
          mma_bf16_16816(group, a[1], x0.z, x0.w);
          mma_bf16_16816(group, a[2], x1.x, x1.y);
          mma_bf16_16816(group, a[3], x1.z, x1.w);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[tile][n][i] = __fmaf_rn(group[i], scale[i / 2], sums[tile][n][i]);
      }
    }
  };

  if constexpr (S == 1) {
    // With many products a slab it pays to wait, before a stage is stored, only until all warps have read it (a barrier in shared
    // memory, in the padding of a code row); with few the plain barrier is cheaper.
    constexpr bool kLoose = kColumnTiles > 2;
    const unsigned empty = shared_at + kSlabBytes;
    if (kLoose && thread == 0) barrier_init(empty, kThreads / 32);
    Slab ahead = {};
    read_slab(ahead);
    if constexpr (kLoose) __syncthreads();
    unsigned parity = 1;
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
      if constexpr (kLoose) {
        barrier_wait(empty, parity);  // of the fresh barrier the phase before the first is complete
        parity ^= 1;
      } else {
        __syncthreads();
      }
      store_slab(ahead);
      if (slab + 1 < slabs) read_slab(ahead);
      __syncthreads();
      Fragments fragments;
      read_fragments(0, fragments);
      __syncwarp();
      if constexpr (kLoose)
        if (lane == 0) barrier_arrive(empty);
      multiply(fragments);
    }
  } else {
#pragma unroll
    for (int stage = 0; stage < S; ++stage) {
      if (stage < slabs) copy_slab(stage, stage);
      cp_async_commit();
    }
#pragma unroll 1
    for (int first = 0; first < slabs; first += S, move_on(S)) {
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
