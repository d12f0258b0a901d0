// What happens to a finished FP32 tile in shared memory: plain store, residual add, SwiGLU.
//
// A kernel leaves its sums as tile[column][row] (row fastest, each column padded by kTilePad floats) and hands every live
// column to `store_tile`, eight output rows (16 bytes) at a time, so that all stores are 16-byte vectors. Outputs are
// token-major: row r of token t is at t * ld + r.
#pragma once
#include "words.cuh"

// Four floats of padding: the fragment writes (rows g, columns 2l) of a warp then fall on 32 different banks.
constexpr int kTilePad = 4;

constexpr int tile_bytes(int rows, int columns) { return (rows + kTilePad) * columns * 4; }

__device__ __forceinline__ uint4 pack8(const float (&v)[8]) {
  return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
}

__device__ __forceinline__ void read8(const float* from, float (&v)[8]) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

// out = bf16(sum)
struct Store {
  static constexpr int kRowsPerOutput = 1;
  __nv_bfloat16* out;  // at the tile's first row of token 0
  int ld;

  __device__ __forceinline__ void operator()(const float* column, int row, int token) const {
    float v[8];
    read8(column + row, v);
    *reinterpret_cast<uint4*>(out + static_cast<long long>(token) * ld + row) = pack8(v);
  }
};

// residual = bf16(residual + sum). Collective: the sum is rounded to BF16 first (engine-kernels 6.4), two roundings in all.
template <bool Collective>
struct AddResidual {
  static constexpr int kRowsPerOutput = 1;
  __nv_bfloat16* residual;  // at the tile's first row of token 0
  int ld;

  __device__ __forceinline__ void operator()(const float* column, int row, int token) const {
    float v[8];
    read8(column + row, v);
    uint4* const at = reinterpret_cast<uint4*>(residual + static_cast<long long>(token) * ld + row);
    const uint4 old = *at;
    const unsigned words[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float sum = Collective ? __bfloat162float(__float2bfloat16_rn(v[i])) : v[i];
      v[i] = sum + (i % 2 ? bf16_high(words[i / 2]) : bf16_low(words[i / 2]));
    }
    *at = pack8(v);
  }
};

// out = bf16(gate / (1 + exp(-gate)) * up). Block = 0: the tile's first half of rows is gate, the second half up; Block = 8:
// every 16 rows are 8 gate rows, then 8 up rows.
template <int Rows, int Block>
struct SwiGlu {
  static_assert(Block == 0 || Block == 8, "SwiGLU tiles pair halves of the tile or halves of 16 rows");
  static constexpr int kRowsPerOutput = 2;
  __nv_bfloat16* out;  // at the tile's first output row of token 0
  int ld;

  __device__ __forceinline__ void operator()(const float* column, int row, int token) const {
    const float* const first = column + (Block == 0 ? row : 2 * row);
    float gate[8], up[8];
    read8(first, gate);
    read8(first + (Block == 0 ? Rows / 2 : 8), up);
#pragma unroll
    for (int i = 0; i < 8; ++i) gate[i] = __fdividef(gate[i], 1.0f + __expf(-gate[i])) * up[i];
    *reinterpret_cast<uint4*>(out + static_cast<long long>(token) * ld + row) = pack8(gate);
  }
};

// Hand tile columns 0 .. live - 1, token `token0` first, to `epilogue`; all `Threads` threads take part. The tile must be
// visible (barrier before the call).
template <int Rows, int Threads, typename Epilogue>
__device__ __forceinline__ void store_tile(const float* tile, int live, int token0, const Epilogue& epilogue) {
  constexpr int kChunks = Rows / Epilogue::kRowsPerOutput / 8;
  static_assert(Rows % (8 * Epilogue::kRowsPerOutput) == 0, "output rows come in vectors of eight");
  for (int i = threadIdx.x; i < live * kChunks; i += Threads) {
    const int column = i / kChunks;
    epilogue(tile + column * (Rows + kTilePad), i % kChunks * 8, token0 + column);
  }
}
