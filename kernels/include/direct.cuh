// Projections without a tile pipeline: per-row dot products on the FP32 units.
//
//   sum[t][r] = sum_k scale(r, k / 64) * code(r, k) * x[t][k],  FP32 sums
//
// A warp walks a row in chunks of 256 elements; lane i owns eight consecutive ones, one code word, the matching high bits and
// 16 bytes of each column of x. K must be a multiple of 1024 unless a function says otherwise. `row0` is the CTA's first row
// of `w`; `x` is (columns, k) BF16.
//
//   simt          R rows a CTA, one warp a row; codes through a cp.async ring of 1024-element tiles, x through L1 (5.6, 6.7)
//   gemv_staged_x the same for one column with x in shared memory (GEMV R16W1)
//   gemv_pair     one column; a warp computes the gate and the up row of one output (6.6)
//   row_block     8 rows, 8 columns; x staged a slab at a time, weights straight from global memory
//   gemv_split    one column; W warps share each row, R rows a CTA (GEMV R1W8, R4W1), nothing staged
//   split_slabs   exact columns; the warps share every 1024-element slab (split4, split2), nothing staged
//
// All hand single elements to `epilogue(row, token, sum)`, row counted from the start of `w`.
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
#include "reduce.cuh"
#include "rowsplit.cuh"
#include "tile_store.cuh"

// out = bf16(sum)
struct StoreElement {
  __nv_bfloat16* out;
  int ld;
  __device__ __forceinline__ void operator()(int row, int token, float sum) const {
    out[static_cast<long long>(token) * ld + row] = __float2bfloat16_rn(sum);
  }
};

// Rows below `split` go to `first`, the others to `second`.
struct StoreSplitElement {
  __nv_bfloat16* first;
  __nv_bfloat16* second;
  int split, first_ld, second_ld;
  __device__ __forceinline__ void operator()(int row, int token, float sum) const {
    __nv_bfloat16* const at = row < split ? first + static_cast<long long>(token) * first_ld + row
                                          : second + static_cast<long long>(token) * second_ld + (row - split);
    *at = __float2bfloat16_rn(sum);
  }
};

// residual = bf16(residual + sum)
struct AddElement {
  __nv_bfloat16* residual;
  int ld;
  __device__ __forceinline__ void operator()(int row, int token, float sum) const {
    __nv_bfloat16* const at = residual + static_cast<long long>(token) * ld + row;
    *at = __float2bfloat16_rn(__bfloat162float(*at) + sum);
  }
};

constexpr int kChunk = 256, kTile = 1024, kChunks = kTile / kChunk;

// What a lane holds of a chunk: eight codes and their scale.
struct Piece {
  unsigned low, high;
  __half scale;
};

// The lane's piece of a row at element `at` (of global memory: past L1 for the codes).
template <typename Format>
__device__ __forceinline__ Piece read_piece(const RowSplit& row, unsigned at) {
  Piece piece;
  piece.low = load_once_4(row.codes + at / 2);
  piece.high = 0;
  if constexpr (Format::kHighBytes == 8) piece.high = __ldg(row.high + at / 8);
  if constexpr (Format::kHighBytes == 16) piece.high = __ldg(reinterpret_cast<const unsigned short*>(row.high) + at / 8);
  piece.scale = __ldg(row.scales + at / 64);
  return piece;
}

// scale * code of the piece in FP32, each rounded once: a code enters the mantissa of 128, the fused multiply-add removes it.
template <typename Format>
__device__ __forceinline__ void weights_of(const Piece& piece, float (&w)[8]) {
  unsigned even, odd;
  biased_bytes<Format>(piece.low, piece.high, even, odd);
  const float scale = __half2float(piece.scale);
  const float bias = -static_cast<float>(128 + (1 << (Format::kBits - 1))) * scale;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    w[2 * i] = fmaf(__uint_as_float(byte_permute(even, 0x43u, 0x4055u | i << 8)), scale, bias);
    w[2 * i + 1] = fmaf(__uint_as_float(byte_permute(odd, 0x43u, 0x4055u | i << 8)), scale, bias);
  }
}

__device__ __forceinline__ void add_products(const float (&w)[8], uint4 x, float& sum) {
  const unsigned words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(w[2 * i], bf16_low(words[i]), sum);
    sum = fmaf(w[2 * i + 1], bf16_high(words[i]), sum);
  }
}

// One warp's ring of 1024-element tiles of one row.
template <typename Format, int Stages>
struct RowRing {
  static constexpr int kCodes = kTile / 2, kHigh = kTile / 64 * Format::kHighBytes, kScales = kTile / 64 * 2;
  static constexpr int kStage = kCodes + kHigh + kScales, kBytes = Stages * kStage;

  unsigned char* shared;  // 16-byte aligned
  RowSplit row;

  __device__ __forceinline__ void fetch(int tile, int slot) const {
    const int lane = threadIdx.x % 32;
    unsigned char* const to = shared + slot * kStage;
    cp_async_cg(to + lane * 16, row.codes + tile * kCodes + lane * 16);
    if constexpr (kHigh > 0)
      if (lane < kHigh / 16) cp_async_cg(to + kCodes + lane * 16, row.high + tile * kHigh + lane * 16);
    if (lane < kScales / 16) cp_async_cg(to + kCodes + kHigh + lane * 16, row.scales + tile * (kTile / 64) + lane * 8);
  }

  __device__ __forceinline__ Piece piece(int slot, int chunk) const {
    const int lane = threadIdx.x % 32, eighth = chunk * 32 + lane;
    const unsigned char* const from = shared + slot * kStage;
    Piece piece;
    piece.low = reinterpret_cast<const unsigned*>(from)[eighth];
    piece.high = 0;
    if constexpr (Format::kHighBytes == 8) piece.high = from[kCodes + eighth];
    if constexpr (Format::kHighBytes == 16) piece.high = reinterpret_cast<const unsigned short*>(from + kCodes)[eighth];
    piece.scale = reinterpret_cast<const __half*>(from + kCodes + kHigh)[eighth / 8];
    return piece;
  }
};

// Run `use(tile, slot)` over the tiles of the rings of one warp; Stages - 1 tiles are in flight. The rings are the warp's own, so
// no barrier of the CTA is needed, but with Shared the first wait covers copies that other warps started before the call.
template <int Stages, bool Shared, int Rings, typename Ring, typename Use>
__device__ __forceinline__ void walk_rings(const Ring (&rings)[Rings], int tiles, const Use& use) {
#pragma unroll
  for (int tile = 0; tile < Stages - 1; ++tile) {
#pragma unroll
    for (int i = 0; i < Rings; ++i)
      if (tile < tiles) rings[i].fetch(tile, tile);
    cp_async_commit();
  }
  int slot = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<Stages - 2>();
    if (Shared && tile == 0)
      __syncthreads();
    else
      __syncwarp();
    const int next = tile + Stages - 1;
#pragma unroll
    for (int i = 0; i < Rings; ++i)
      if (next < tiles) rings[i].fetch(next, slot == 0 ? Stages - 1 : slot - 1);
    cp_async_commit();
    use(tile, slot);
    slot = slot + 1 == Stages ? 0 : slot + 1;
  }
}

// Shared memory of `simt`; of the two below with k x BF16 added.
template <typename Format, int Rows, int Stages>
constexpr int ring_bytes() {
  return Rows * RowRing<Format, Stages>::kBytes;
}

// R rows a CTA of 32 R threads, columns column0 .. column0 + C - 1 as far as they exist.
template <typename Format, int R, int C, int Stages, typename Epilogue>
__device__ __forceinline__ void simt(unsigned char* shared, RowSplit w, int row0, int k, const __nv_bfloat16* x, int columns,
                                     int column0, const Epilogue& epilogue) {
  using Ring = RowRing<Format, Stages>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = row0 + warp;
  const Ring rings[1] = {{shared + warp * Ring::kBytes, rows_from<Format>(w, row, k / 64)}};
  const int live = columns - column0;
  const unsigned from = column0 * k + lane * 8;
  float sums[C] = {};
  walk_rings<Stages, false>(rings, k / kTile, [&](int tile, int slot) {
#pragma unroll(C <= 2 ? kChunks : 1)
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      uint4 values[C];
#pragma unroll
      for (int c = 0; c < C; ++c)
        if (c == 0 || c < live) values[c] = __ldg(reinterpret_cast<const uint4*>(x + (from + c * k + tile * kTile + chunk * kChunk)));
      float weights[8];
      weights_of<Format>(rings[0].piece(slot, chunk), weights);
#pragma unroll
      for (int c = 0; c < C; ++c)
        if (c == 0 || c < live) add_products(weights, values[c], sums[c]);
    }
  });
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const float sum = warp_sum(sums[c]);
    if (lane == c && c < live) epilogue(row, column0 + c, sum);
  }
}

// Start copying one column of x to shared memory, all threads; the caller commits nothing else before the rings.
__device__ __forceinline__ void stage_column(__nv_bfloat16* staged, const __nv_bfloat16* x, int k) {
  for (int i = threadIdx.x * 8; i < k; i += blockDim.x * 8) cp_async_cg(staged + i, x + i);
  cp_async_commit();
}

// One column, R rows a CTA of 32 R threads; `shared` holds the rings, then x.
template <typename Format, int R, int Stages, typename Epilogue>
__device__ __forceinline__ void gemv_staged_x(unsigned char* shared, RowSplit w, int row0, int k, const __nv_bfloat16* x,
                                              const Epilogue& epilogue) {
  using Ring = RowRing<Format, Stages>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = row0 + warp;
  const Ring rings[1] = {{shared + warp * Ring::kBytes, rows_from<Format>(w, row, k / 64)}};
  __nv_bfloat16* const staged = reinterpret_cast<__nv_bfloat16*>(shared + R * Ring::kBytes);
  stage_column(staged, x, k);
  float sum = 0.0f;
  walk_rings<Stages, true>(rings, k / kTile, [&](int tile, int slot) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      float weights[8];
      weights_of<Format>(rings[0].piece(slot, chunk), weights);
      add_products(weights, *reinterpret_cast<const uint4*>(staged + tile * kTile + chunk * kChunk + lane * 8), sum);
    }
  });
  sum = warp_sum(sum);
  if (lane == 0) epilogue(row, 0, sum);
}

// gate / (1 + exp(-gate)) * up
__device__ __forceinline__ float silu_times(float gate, float up) { return gate / (1.0f + __expf(-gate)) * up; }

// One column, R outputs a CTA of 32 R threads; output row r has gate row r and up row r + apart. `shared` holds two rings a
// warp, then x.
template <typename Format, int R, int Stages, typename Epilogue>
__device__ __forceinline__ void gemv_pair(unsigned char* shared, RowSplit w, int row0, int apart, int k,
                                          const __nv_bfloat16* x, const Epilogue& epilogue) {
  using Ring = RowRing<Format, Stages>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = row0 + warp;
  const Ring rings[2] = {{shared + 2 * warp * Ring::kBytes, rows_from<Format>(w, row, k / 64)},
                         {shared + (2 * warp + 1) * Ring::kBytes, rows_from<Format>(w, row + apart, k / 64)}};
  __nv_bfloat16* const staged = reinterpret_cast<__nv_bfloat16*>(shared + 2 * R * Ring::kBytes);
  stage_column(staged, x, k);
  float sums[2] = {};
  walk_rings<Stages, true>(rings, k / kTile, [&](int tile, int slot) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const uint4 values = *reinterpret_cast<const uint4*>(staged + tile * kTile + chunk * kChunk + lane * 8);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float weights[8];
        weights_of<Format>(rings[i].piece(slot, chunk), weights);
        add_products(weights, values, sums[i]);
      }
    }
  });
  const float gate = warp_sum(sums[0]), up = warp_sum(sums[1]);
  if (lane == 0) epilogue(row, 0, silu_times(gate, up));
}

// 8 rows a CTA of 256 threads, one warp a row, up to 8 columns. `shared` has two slabs of 8 x 1024 BF16 (32,768 bytes); a warp
// reads the weights of the next slab while it multiplies this one.
constexpr int kRowBlockBytes = 2 * 8 * kTile * 2;

template <typename Format, typename Epilogue>
__device__ __forceinline__ void row_block(unsigned char* shared, RowSplit w, int row0, int k, const __nv_bfloat16* x,
                                          int columns, const Epilogue& epilogue) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = row0 + warp, slabs = k / kTile;
  const RowSplit mine = rows_from<Format>(w, row, k / 64);
  __nv_bfloat16* const staged = reinterpret_cast<__nv_bfloat16*>(shared);
  const auto fetch = [&](int slab) {
    __nv_bfloat16* const to = staged + slab % 2 * 8 * kTile;
    for (int i = threadIdx.x; i < columns * (kTile / 8); i += 256) {
      const int column = i / (kTile / 8), part = i % (kTile / 8) * 8;
      cp_async_cg(to + column * kTile + part, x + (column * k + slab * kTile + part));
    }
    cp_async_commit();
  };
  Piece pieces[kChunks];
  const auto read_slab = [&](int slab) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk)
      pieces[chunk] = read_piece<Format>(mine, slab * kTile + chunk * kChunk + lane * 8);
  };
  fetch(0);
  read_slab(0);
  float sums[8] = {};
#pragma unroll 1
  for (int slab = 0; slab < slabs; ++slab) {
    cp_async_wait<0>();
    __syncthreads();
    if (slab + 1 < slabs) fetch(slab + 1);
    Piece now[kChunks];
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) now[chunk] = pieces[chunk];
    if (slab + 1 < slabs) read_slab(slab + 1);
    const __nv_bfloat16* const from = staged + slab % 2 * 8 * kTile + lane * 8;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      float weights[8];
      weights_of<Format>(now[chunk], weights);
#pragma unroll
      for (int c = 0; c < 8; ++c)
        add_products(weights, *reinterpret_cast<const uint4*>(from + c * kTile + chunk * kChunk), sums[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float sum = warp_sum(sums[c]);
    if (lane == c && c < columns) epilogue(row, c, sum);
  }
}

// One column; R rows a CTA of 32 R W threads, W warps a row, each taking every W-th chunk, four of them in flight. K is a
// multiple of 256. `shared` has R * W floats.
template <typename Format, int R, int W, typename Epilogue>
__device__ __forceinline__ void gemv_split(float* shared, RowSplit w, int row0, int k, const __nv_bfloat16* x,
                                           const Epilogue& epilogue) {
  constexpr int kAhead = 4;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = row0 + warp / W;
  const RowSplit mine = rows_from<Format>(w, row, k / 64);
  const int chunks = k / kChunk;
  float sum = 0.0f;
#pragma unroll 1
  for (int first = warp % W; first < chunks; first += kAhead * W) {
    Piece pieces[kAhead];
    uint4 values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const unsigned at = (first + i * W) * kChunk + lane * 8;
      if (first + i * W < chunks) {
        pieces[i] = read_piece<Format>(mine, at);
        values[i] = __ldg(reinterpret_cast<const uint4*>(x + at));
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i * W < chunks) {
        float weights[8];
        weights_of<Format>(pieces[i], weights);
        add_products(weights, values[i], sum);
      }
    }
  }
  sum = warp_sum(sum);
  if constexpr (W == 1) {
    if (lane == 0) epilogue(row, 0, sum);
  } else {
    if (lane == 0) shared[warp] = sum;
    __syncthreads();
    if (threadIdx.x < R) {
      float total = 0.0f;
#pragma unroll
      for (int i = 0; i < W; ++i) total += shared[threadIdx.x * W + i];
      epilogue(row0 + threadIdx.x, 0, total);
    }
  }
}

// Exactly T columns; R rows a CTA of 32 W threads. Warp w takes elements 1024 / W * w and on of every slab (split4: W 4, one
// chunk; split2: W 2, two chunks); partial sums are added in the order of the warps. `shared` has R * W * T floats.
template <typename Format, int T, int W, int R, typename Epilogue>
__device__ __forceinline__ void split_slabs(float* shared, RowSplit w, int row0, int k, const __nv_bfloat16* x,
                                            const Epilogue& epilogue) {
  static_assert(W == 2 || W == 4, "a slab of four chunks is shared by two or four warps");
  static_assert(R * T <= 32 * W, "one thread a stored element");
  constexpr int kPieces = kChunks / W;             // a slab
  // Pieces a row read before the first is used, as many as the register limit of 8 to 16 CTAs an SM leaves room for.
  constexpr int kAhead = W == 2 ? (T <= 2 ? 8 : T <= 4 ? 4 : T <= 6 ? 2 : 4) : R == 1 && T <= 3 ? 4 : R == 1 && T <= 5 ? 2 : 1;
  static_assert(kAhead % kPieces == 0, "whole slabs are read ahead");
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, slabs = k / kTile;
  RowSplit mine[R];
#pragma unroll
  for (int r = 0; r < R; ++r) mine[r] = rows_from<Format>(w, row0 + r, k / 64);
  float sums[R][T] = {};
#pragma unroll 1
  for (int first = 0; first < slabs; first += kAhead / kPieces) {
    Piece pieces[kAhead][R];
    const auto at = [&](unsigned i) { return (first + i / kPieces) * kTile + (warp * kPieces + i % kPieces) * kChunk + lane * 8u; };
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (first + i / kPieces < slabs) pieces[i][r] = read_piece<Format>(mine[r], at(i));
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i / kPieces < slabs) {
        float weights[R][8];
#pragma unroll
        for (int r = 0; r < R; ++r) weights_of<Format>(pieces[i][r], weights[r]);
        const __nv_bfloat16* from = x + at(i);
#pragma unroll
        for (int t = 0; t < T; ++t, from += k) {
          const uint4 values = __ldg(reinterpret_cast<const uint4*>(from));
#pragma unroll
          for (int r = 0; r < R; ++r) add_products(weights[r], values, sums[r][t]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const float sum = warp_sum(sums[r][t]);
      if (lane == 0) shared[(warp * R + r) * T + t] = sum;
    }
  __syncthreads();
  if (threadIdx.x < R * T) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < W; ++i) total += shared[i * R * T + threadIdx.x];
    epilogue(row0 + threadIdx.x / T, threadIdx.x % T, total);
  }
}
