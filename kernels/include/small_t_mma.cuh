// Small-T MMA with a shared-memory layout (engine-kernels 5.5; at KWarps 8 and one stage also the K-split MMA of 5.3).
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// 256 threads = 8 warps: KWarps along K, 8 / KWarps along rows, each warp TilesPerWarp tiles of 16 rows. A stage holds 64 KWarps
// elements of K; warp w owns group w mod KWarps of it. Up to XCols token columns (a multiple of 8, or 4: one n8 tile of which
// four columns are never stored); only live columns are copied, what the others hold goes into sums that are never stored.
//
// The 8 / KWarps warps that own the same group of a slab (a team) need nothing that another team copies, so a team copies its own
// 32 code bytes a row, high bytes and x, and synchronises alone: at KWarps 8 the loop has no barrier of the CTA at all. With
// barriers of the CTA, copies and products of an H200's two or three CTAs per multiprocessor took turns.
//
// K order: lane l (of four) owns k = 16 l .. 16 l + 15 of its group, one 64-bit word of codes and 32 bytes of x; products 0
// and 1 take the first eight of them, 2 and 3 the others, in whatever order the codes decode cheapest.
#pragma once
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
  static constexpr int kTeam = kThreads / KWarps;
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
  static constexpr int kStage = kCodes + kHigh + kX;
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

  // Where this thread copies from in slab 0, as 32-bit offsets into the planes.
  constexpr int kTeam = Cfg::kTeam, kCodeCopies = Cfg::kRows * 2 / kTeam;
  static_assert(kCodeCopies * kTeam == Cfg::kRows * 2, "every thread copies the same number of code chunks");
  static_assert(Cfg::kRows <= kTeam, "one copy a thread covers the high plane");
  const int member = row_warp * 32 + lane;
  unsigned code_from[kCodeCopies];
#pragma unroll
  for (int i = 0; i < kCodeCopies; ++i)
    code_from[i] = static_cast<unsigned>(rows((member + i * kTeam) / 2)) * code_pitch + k_warp * 32 + member % 2 * 16;
  const unsigned high_from =
      static_cast<unsigned>(rows(member % Cfg::kRows)) * high_pitch + k_warp * Format::kHighBytes;
  const int x_column = member / 8, x_chunk = member % 8;
  constexpr int kColumnStep = kTeam / 8;
  // Where it copies to in a stage.
  const int code_to = member / 2 * Shared::kCodePitch + k_warp * 32 + member % 2 * 16;
  const int high_to = Shared::kCodes + member * Shared::kHighPitch + k_warp * Format::kHighBytes;
  const int x_to = Shared::kCodes + Shared::kHigh + (k_warp * Cfg::kXCols + x_column) * Shared::kXPitch + x_chunk * 16;

  auto synchronise_team = [&] {
    if constexpr (KW == 8)
      __syncwarp();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(1 + k_warp), "n"(kTeam) : "memory");
  };

  constexpr int kXCopies = (Cfg::kXCols + kColumnStep - 1) / kColumnStep;
  auto copy_slab = [&](int slab, int stage) {
    unsigned char* const to = shared + stage * Shared::kStage;
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i)
      cp_async_cg(to + code_to + i * (kTeam / 2) * Shared::kCodePitch, w.codes + (code_from[i] + slab * kSlabBytes));
    if constexpr (Format::kHighBytes > 0)
      if (member < Cfg::kRows)
        cp_async_ca<Format::kHighBytes>(to + high_to, w.high + (high_from + slab * (Format::kHighBytes * KW)));
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      if (x_column + j * kColumnStep < columns)
        cp_async_cg(to + x_to + j * kColumnStep * Shared::kXPitch,
                    x + (static_cast<unsigned>(x_column + j * kColumnStep) * k + (slab * KW + k_warp) * 64 + x_chunk * 8));
  };

  // Codes decode cheapest in pairs (0,4) (1,5) ...; x follows, on its way to shared memory or where a column is read. With many
  // columns to rearrange at every read the natural pairs are cheaper.
  constexpr bool kStrided = S == 1 || kColumnTiles <= 2;
  auto strided = [](uint4 values) {
    const unsigned natural[4] = {values.x, values.y, values.z, values.w};
    unsigned pairs[4];
    stride_pairs(natural, pairs);
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  };

  // One stage: the next slab is on its way to registers while this one is multiplied. (Two slabs ahead cost registers and
  // gained nothing on an H200, and neither did hints that pull later slabs into the L2: many short requests already bound it.)
  struct Slab {
    uint4 code[kCodeCopies], high, x[kXCopies];
  };

  auto read_slab = [&](int slab, Slab& to) {
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i) to.code[i] = load_once_16(w.codes + (code_from[i] + slab * kSlabBytes));
    if constexpr (Format::kHighBytes > 0)
      if (member < Cfg::kRows) {
        const unsigned char* const from = w.high + (high_from + slab * (Format::kHighBytes * KW));
        if constexpr (Format::kHighBytes == 16)
          to.high = __ldg(reinterpret_cast<const uint4*>(from));
        else
          reinterpret_cast<uint2&>(to.high) = __ldg(reinterpret_cast<const uint2*>(from));
      }
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      if (x_column + j * kColumnStep < columns)
        to.x[j] = __ldg(reinterpret_cast<const uint4*>(
            x + (static_cast<unsigned>(x_column + j * kColumnStep) * k + (slab * KW + k_warp) * 64 + x_chunk * 8)));
  };

  auto store_slab = [&](const Slab& from) {
#pragma unroll
    for (int i = 0; i < kCodeCopies; ++i)
      *reinterpret_cast<uint4*>(shared + code_to + i * (kTeam / 2) * Shared::kCodePitch) = from.code[i];
    if constexpr (Format::kHighBytes > 0)
      if (member < Cfg::kRows) {
        if constexpr (Format::kHighBytes == 16)
          *reinterpret_cast<uint4*>(shared + high_to) = from.high;
        else
          *reinterpret_cast<uint2*>(shared + high_to) = reinterpret_cast<const uint2&>(from.high);
      }
#pragma unroll
    for (int j = 0; j < kXCopies; ++j)
      if (x_column + j * kColumnStep < columns)
        *reinterpret_cast<uint4*>(shared + x_to + j * kColumnStep * Shared::kXPitch) = strided(from.x[j]);
  };

  // Scales go from global memory to the lanes that need them, a slab ahead.
  unsigned scale_from[kTiles][2];
  __half scales[kTiles][2];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      scale_from[tile][half] =
          static_cast<unsigned>(rows((row_warp * kTiles + tile) * 16 + half * 8 + g)) * groups + k_warp;
  auto read_scales = [&](int slab) {
    if (slab >= slabs) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) scales[tile][half] = __ldg(w.scales + (scale_from[tile][half] + slab * KW));
  };

  float sums[kTiles][kColumnTiles][4] = {};

  auto multiply_slab = [&](int stage, const float (&scale_of)[kTiles][2]) {
    const unsigned char* const codes = shared + stage * Shared::kStage + k_warp * 32 + l * 8;
    const unsigned char* const high =
        shared + stage * Shared::kStage + Shared::kCodes + (k_warp * 4 + l) * (Format::kHighBytes / 4);
    const unsigned char* const to_x = shared + stage * Shared::kStage + Shared::kCodes + Shared::kHigh;
    // XCols 4: lanes of columns 4 to 7 read columns 0 to 3 again.
    const unsigned char* const x_at =
        to_x + (k_warp * Cfg::kXCols + (Cfg::kXCols == 4 ? g % 4 : g)) * Shared::kXPitch + l * 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      unsigned a[4][4];  // by product, then fragment word
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
#pragma unroll
        for (int word = 0; word < 2; ++word) {
          unsigned pairs[4];
          if constexpr (kStrided)
            decode8_strided<Format>(word ? low.y : low.x, high_bits[word], pairs);
          else
            decode8_pairs<Format>(word ? low.y : low.x, high_bits[word], pairs);
          a[word * 2][half] = pairs[0], a[word * 2][half + 2] = pairs[1];
          a[word * 2 + 1][half] = pairs[2], a[word * 2 + 1][half + 2] = pairs[3];
        }
      }
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        uint4 x0 = *reinterpret_cast<const uint4*>(x_at + n * 8 * Shared::kXPitch);
        uint4 x1 = *reinterpret_cast<const uint4*>(x_at + n * 8 * Shared::kXPitch + 16);
        if constexpr (kStrided && S > 1) x0 = strided(x0), x1 = strided(x1);
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
        for (int i = 0; i < 4; ++i) sums[tile][n][i] = __fmaf_rn(group[i], scale_of[tile][i / 2], sums[tile][n][i]);
      }
    }
  };

  // Take the scales of `slab` and start reading those of the next.
  auto next_scales = [&](int slab, float (&scale_of)[kTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) scale_of[tile][half] = __half2float(scales[tile][half]);
    read_scales(slab + 1);
  };
  read_scales(0);
  if constexpr (S == 1) {
    Slab ahead;
    read_slab(0, ahead);
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
      synchronise_team();
      store_slab(ahead);
      synchronise_team();
      if (slab + 1 < slabs) read_slab(slab + 1, ahead);
      float scale_of[kTiles][2];
      next_scales(slab, scale_of);
      multiply_slab(0, scale_of);
    }
  } else {
#pragma unroll
    for (int stage = 0; stage < S; ++stage) {
      if (stage < slabs) copy_slab(stage, stage);
      cp_async_commit();
    }
    int stage = 0;
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
      cp_async_wait<S - 1>();
      synchronise_team();
      float scale_of[kTiles][2];
      next_scales(slab, scale_of);
      multiply_slab(stage, scale_of);
      synchronise_team();
      if (slab + S < slabs) copy_slab(slab + S, stage);
      cp_async_commit();
      stage = stage + 1 == S ? 0 : stage + 1;
    }
  }
  if constexpr (S > 1) cp_async_wait<0>();
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
