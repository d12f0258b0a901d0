// Gated delta net prefill as normalisation, WY preparation, state passing and output over chunks of 64 tokens, and the
// token-by-token recurrence for what is left over.
//
// Per value head: a = exp(g); d = beta * (v - a S k); S <- a S + d k^T; out = scale * S q, S[value dim][key dim]; q and k
// replaced by x * rsqrt(sum x^2 + 1e-6). Over a chunk, G = inclusive sum of g:
//   A_ij = -beta_i e^(G_i - G_j) k_i.k_j, j < i;  T = (I - A)^-1;  U = T diag(beta) V;  W = T diag(beta e^G) K
//   Vn = U - W S^T;  out = scale * (diag(e^G) Q S^T + ((Q K^T) * M) Vn), M_ts = e^(G_t - G_s), s <= t
//   S <- e^G_last S + (diag(e^(G_last - G)) Vn)^T K
//
// Pointers: q, k BF16 (tokens, 16, 128), qn, kn the same normalised; v, out BF16 (tokens, Heads, 128); g, beta FP32
// (tokens, Heads); state FP32 (Heads, 128 value dims, 128 key dims); u, w, vn BF16 (Heads, chunks, 64, 128); sums FP32
// (Heads, chunks, 64), the G; snapshots BF16 (Heads, chunks, 128 value dims, 128 key dims), S at the start of a chunk.
//
// This is the compiled route: chunks of 64 and tensor-core products between chunks make it parallel over the prompt except
// for the state passing; the two-stage prefill walks chunks of 16 with everything of a chunk in one CTA.
//
// gdn_l2: grid ceil(rows / 16), block 256. Rows of 128, one half warp each.
// gdn_wy_prepare<Heads, Warps, Volta>: grid (Heads, chunks), block 32 * Warps, dynamic shared memory 51712 bytes (k, v, a
//   64x72 FP32 square, gates); Warps 4 or 8.
// gdn_state_passing<Heads, Strip, Volta>: grid (128 / Strip, Heads), block 16 * Strip, dynamic shared memory
//   32768 + 800 * Strip bytes (w, k, u, Vn, the state); Strip 16 or 32 value dims a CTA.
// gdn_output<Heads, Volta>: grid (ceil(chunks / per_cta), Heads), block 128, dynamic shared memory 32768 bytes (k then Vn,
//   q then the snapshot); a CTA walks per_cta chunks.
// gdn_recurrent<Heads>: grid (Heads, 1, 8), block 128; a warp holds 4 value dims, a lane 4 key dims of each.
//   Heads 48 or 32; Volta: see include/gdn.cuh.
#include "gdn.cuh"
#include "reduce.cuh"

using namespace gdn;

constexpr int kChunk = 64;
constexpr int kTile = kChunk * kDim;  // elements of one chunk's rows
constexpr int kSquare = 72;           // row stride of the 64x64 FP32 matrix: two-value reads of four rows miss each other
constexpr int kStateStride = 136;     // the same for rows of 128

__global__ void __launch_bounds__(256) gdn_l2(const __nv_bfloat16* x, __nv_bfloat16* y, int rows) {
  const int row = blockIdx.x * 16 + threadIdx.x / 16;
  const long long offset = static_cast<long long>(row) * kDim + threadIdx.x % 16 * 8;
  uint4 raw = make_uint4(0, 0, 0, 0);
  if (row < rows) raw = *reinterpret_cast<const uint4*>(x + offset);
  const uint4 unit = normalised(raw);
  if (row < rows) *reinterpret_cast<uint4*>(y + offset) = unit;
}

// c += x * y for 16x16 blocks of the square: x as accumulator tiles, y rows row0.., columns col0... Both sums over 16.
template <bool Volta>
__device__ __forceinline__ void block_product(float (&c)[2][4], const float (&x)[2][4], const float* y) {
  const int row = lane_id() / 4, col = lane_id() % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile)
#pragma unroll
    for (int step = 0; step < 2; ++step)
      mma_tile<Volta>(c[tile], x[step], y[(step * 8 + col) * kSquare + tile * 8 + row],
                      y[(step * 8 + col + 1) * kSquare + tile * 8 + row]);
}
__device__ __forceinline__ void load_block(float (&x)[2][4], const float* block) {
  const int row = lane_id() / 4, col = lane_id() % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    const float2 upper = *reinterpret_cast<const float2*>(block + row * kSquare + tile * 8 + col);
    const float2 bottom = *reinterpret_cast<const float2*>(block + (row + 8) * kSquare + tile * 8 + col);
    x[tile][0] = upper.x, x[tile][1] = upper.y, x[tile][2] = bottom.x, x[tile][3] = bottom.y;
  }
}
__device__ __forceinline__ void store_block(float* block, const float (&x)[2][4]) {
  const int row = lane_id() / 4, col = lane_id() % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    *reinterpret_cast<float2*>(block + row * kSquare + tile * 8 + col) = make_float2(x[tile][0], x[tile][1]);
    *reinterpret_cast<float2*>(block + (row + 8) * kSquare + tile * 8 + col) = make_float2(x[tile][2], x[tile][3]);
  }
}

template <int Heads, int Warps, bool Volta>
__global__ void __launch_bounds__(32 * Warps)
    gdn_wy_prepare(const __nv_bfloat16* kn, const __nv_bfloat16* v, const float* g, const float* beta, __nv_bfloat16* u,
                   __nv_bfloat16* w, float* sums) {
  static_assert(Warps == 4 || Warps == 8, "columns are split over four or eight warps");
  require_arch<Volta>();
  constexpr int kThreads = 32 * Warps, kCols = kDim / Warps, kColTiles = kCols / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  const Tile<kDim> k_tile{reinterpret_cast<__nv_bfloat16*>(memory)};
  const Tile<kDim> v_tile{reinterpret_cast<__nv_bfloat16*>(memory) + kTile};
  float* square = reinterpret_cast<float*>(memory + 4 * kTile);
  float* gate = square + kChunk * kSquare;
  float* weight = gate + kChunk;
  const int lane = lane_id(), warp = threadIdx.x / 32, row = lane / 4, col = lane % 4 * 2;
  const int head = blockIdx.x, chunk = blockIdx.y, chunks = gridDim.y, qk_head = head / (Heads / kQkHeads);
  const long long first = static_cast<long long>(chunk) * kChunk;

  each<kTile / 8, kThreads>([&](int i) {
    copy16<Volta>(k_tile.piece(i / 16, i % 16), kn + ((first + i / 16) * kQkHeads + qk_head) * kDim + i % 16 * 8, true);
  });
  copy_commit<Volta>();
  each<kTile / 8, kThreads>([&](int i) {
    copy16<Volta>(v_tile.piece(i / 16, i % 16), v + ((first + i / 16) * Heads + head) * kDim + i % 16 * 8, true);
  });
  copy_commit<Volta>();
  if (warp == 0) {
    const float low = prefix_sum(g[(first + lane) * Heads + head]);
    const float high = prefix_sum(g[(first + 32 + lane) * Heads + head]) + __shfl_sync(0xFFFFFFFFu, low, 31);
    gate[lane] = low, gate[lane + 32] = high;
    float* stored = sums + (static_cast<long long>(head) * chunks + chunk) * kChunk;
    stored[lane] = low, stored[lane + 32] = high;
  } else if (warp == 1) {
    weight[lane] = beta[(first + lane) * Heads + head];
    weight[lane + 32] = beta[(first + 32 + lane) * Heads + head];
  }
  copy_wait<Volta, 1>();
  __syncthreads();

  // A, the ten blocks on and below the diagonal.
  for (int block = warp; block < 10; block += Warps) {
    const int i = block < 1 ? 0 : block < 3 ? 1 : block < 6 ? 2 : 3, j = block - i * (i + 1) / 2;
    float dot[2][4] = {};
#pragma unroll
    for (int key = 0; key < kDim; key += 16) {
      unsigned a[4], b[4];
      load_a<Volta>(a, k_tile, i * 16, key);
      load_b<Volta>(b, k_tile, j * 16, key);
      mma_bf16<Volta>(dot[0], a, b[0], b[1]);
      mma_bf16<Volta>(dot[1], a, b[2], b[3]);
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int t = i * 16 + row + (e >> 1) * 8, s = j * 16 + tile * 8 + col + (e & 1);
        dot[tile][e] = s < t ? -weight[t] * __expf(gate[t] - gate[s]) * dot[tile][e] : 0.0f;
      }
    store_block(square + i * 16 * kSquare + j * 16, dot);
  }
  __syncthreads();

  // T in place of A: the diagonal blocks, then each off-diagonal block of a 32x32 half, then the lower left 32x32 block.
  if (warp < 4) {
    float* block = square + warp * (16 * kSquare + 16);
    float x[16];
    invert_column<kSquare>(x, block, -1.0f, lane & 15);
    __syncwarp();
    if (lane < 16) {
#pragma unroll
      for (int t = 0; t < 16; ++t) block[t * kSquare + lane] = x[t];
    }
  }
  __syncthreads();
  if (warp < 2) {
    float* half = square + warp * (32 * kSquare + 32);
    float x[2][4], middle[2][4] = {}, result[2][4] = {};
    load_block(x, half + 16 * kSquare + 16);
    block_product<Volta>(middle, x, half + 16 * kSquare);
    block_product<Volta>(result, middle, half);
    __syncwarp();
    store_block(half + 16 * kSquare, result);
  }
  __syncthreads();
  float corner[2][2][4] = {};
  if (warp < 2) {
    float x[2][4], middle[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (step <= warp) {
        load_block(x, square + (32 + warp * 16) * kSquare + 32 + step * 16);
#pragma unroll
        for (int j = 0; j < 2; ++j) block_product<Volta>(middle[j], x, square + (32 + step * 16) * kSquare + j * 16);
      }
    }
    block_product<Volta>(corner[0], middle[0], square);
    block_product<Volta>(corner[0], middle[1], square + 16 * kSquare);
    block_product<Volta>(corner[1], middle[1], square + 16 * kSquare + 16);
  }
  __syncthreads();
  if (warp < 2) {
    store_block(square + (32 + warp * 16) * kSquare, corner[0]);
    store_block(square + (32 + warp * 16) * kSquare + 16, corner[1]);
  }
  copy_wait<Volta, 0>();
  __syncthreads();

  // U and W: a warp owns kCols columns, reads them all, and puts the result in their place.
#pragma unroll
  for (int pass = 0; pass < 2; ++pass) {
    const Tile<kDim> tile = pass ? k_tile : v_tile;
    unsigned b[4][kColTiles / 2][4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int n = 0; n < kColTiles / 2; ++n) load_b_trans<Volta>(b[j][n], tile, j * 16, warp * kCols + n * 16);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float sum[kColTiles][4] = {};
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        float x[2][4];
        load_block(x, square + i * 16 * kSquare + j * 16);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int s = j * 16 + half * 8 + col;
          const float left = pass ? weight[s] * __expf(gate[s]) : weight[s];
          const float right = pass ? weight[s + 1] * __expf(gate[s + 1]) : weight[s + 1];
          x[half][0] *= left, x[half][1] *= right, x[half][2] *= left, x[half][3] *= right;
        }
        const unsigned a[4] = {pack(x[0][0], x[0][1]), pack(x[0][2], x[0][3]), pack(x[1][0], x[1][1]), pack(x[1][2], x[1][3])};
#pragma unroll
        for (int n = 0; n < kColTiles / 2; ++n) {
          mma_bf16<Volta>(sum[2 * n], a, b[j][n][0], b[j][n][1]);
          mma_bf16<Volta>(sum[2 * n + 1], a, b[j][n][2], b[j][n][3]);
        }
      }
#pragma unroll
      for (int n = 0; n < kColTiles; ++n) {
        *reinterpret_cast<unsigned*>(tile.at(i * 16 + row, warp * kCols + n * 8 + col)) = pack(sum[n][0], sum[n][1]);
        *reinterpret_cast<unsigned*>(tile.at(i * 16 + row + 8, warp * kCols + n * 8 + col)) = pack(sum[n][2], sum[n][3]);
      }
    }
  }
  __syncthreads();
  const long long place = (static_cast<long long>(head) * chunks + chunk) * kTile;
  each<kTile / 8, kThreads>([&](int i) {
    *reinterpret_cast<uint4*>(u + place + i * 8) = *reinterpret_cast<const uint4*>(v_tile.piece(i / 16, i % 16));
    *reinterpret_cast<uint4*>(w + place + i * 8) = *reinterpret_cast<const uint4*>(k_tile.piece(i / 16, i % 16));
  });
}

template <int Heads, int Strip, bool Volta>
__global__ void __launch_bounds__(16 * Strip)
    gdn_state_passing(const __nv_bfloat16* kn, const __nv_bfloat16* u, const __nv_bfloat16* w, const float* sums,
                      const float* state_in, int chunks, __nv_bfloat16* snapshots, __nv_bfloat16* vn, float* state_out) {
  static_assert(Strip == 16 || Strip == 32, "eight warps walk a strip of 16 value dims, sixteen one of 32");
  require_arch<Volta>();
  constexpr int kThreads = 16 * Strip, kWarps = 8;
  extern __shared__ __align__(128) unsigned char memory[];
  const Tile<kDim> w_tile{reinterpret_cast<__nv_bfloat16*>(memory)};
  const Tile<kDim> k_tile{reinterpret_cast<__nv_bfloat16*>(memory) + kTile};
  const Tile<Strip> u_tile{reinterpret_cast<__nv_bfloat16*>(memory) + 2 * kTile};
  const Tile<kChunk> vn_tile{reinterpret_cast<__nv_bfloat16*>(memory) + 2 * kTile + kChunk * Strip};
  float* states = reinterpret_cast<float*>(memory + 4 * kTile + 4 * kChunk * Strip);  // (Strip, kStateStride)

  const int lane = lane_id(), group = threadIdx.x / 32 / kWarps, part = threadIdx.x / 32 % kWarps;
  const int row = lane / 4, col = lane % 4 * 2;
  const int head = blockIdx.y, qk_head = head / (Heads / kQkHeads), value0 = blockIdx.x * Strip, local = group * 16;
  const long long head_chunks = static_cast<long long>(head) * chunks;

  const auto fetch_wu = [&](int chunk) {
    if (chunk < chunks) {
      const long long place = (head_chunks + chunk) * kTile;
      each<kTile / 8, kThreads>([&](int i) { copy16<Volta>(w_tile.piece(i / 16, i % 16), w + place + i * 8, true); });
      each<kChunk * Strip / 8, kThreads>([&](int i) {
        const int t = i / (Strip / 8), piece = i % (Strip / 8);
        copy16<Volta>(u_tile.piece(t, piece), u + place + t * kDim + value0 + piece * 8, true);
      });
    }
    copy_commit<Volta>();
  };
  const auto fetch_k = [&](int chunk) {
    if (chunk < chunks) {
      const __nv_bfloat16* rows = kn + (static_cast<long long>(chunk) * kChunk * kQkHeads + qk_head) * kDim;
      each<kTile / 8, kThreads>([&](int i) {
        copy16<Volta>(k_tile.piece(i / 16, i % 16), rows + i / 16 * (kQkHeads * kDim) + i % 16 * 8, true);
      });
    }
    copy_commit<Volta>();
  };

  fetch_wu(0);
  fetch_k(0);
  float s[2][4];
  const long long state_row = (static_cast<long long>(head) * kDim + value0 + local + row) * kDim + part * 16 + col;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const float2 upper = *reinterpret_cast<const float2*>(state_in + state_row + n * 8);
    const float2 bottom = *reinterpret_cast<const float2*>(state_in + state_row + 8 * kDim + n * 8);
    s[n][0] = upper.x, s[n][1] = upper.y, s[n][2] = bottom.x, s[n][3] = bottom.y;
  }
  float* own = states + (local + row) * kStateStride + part * 16 + col;

  for (int chunk = 0; chunk < chunks; ++chunk) {
    __nv_bfloat16* snapshot = snapshots + (head_chunks + chunk) * kDim * kDim + (value0 + local + row) * kDim + part * 16 + col;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      *reinterpret_cast<float2*>(own + n * 8) = make_float2(s[n][0], s[n][1]);
      *reinterpret_cast<float2*>(own + 8 * kStateStride + n * 8) = make_float2(s[n][2], s[n][3]);
      *reinterpret_cast<unsigned*>(snapshot + n * 8) = pack(s[n][0], s[n][1]);
      *reinterpret_cast<unsigned*>(snapshot + 8 * kDim + n * 8) = pack(s[n][2], s[n][3]);
    }
    const float* chunk_sums = sums + (head_chunks + chunk) * kChunk;
    const float2 here = *reinterpret_cast<const float2*>(chunk_sums + part * 8 + col);
    const float last = chunk_sums[kChunk - 1];
    copy_wait<Volta, 1>();  // w and u; k may be on its way
    __syncthreads();

    // Vn^T for tokens part * 8 .. + 8: U^T - S W^T, TF32.
    float sum[2][4] = {};
    const float* rows = states + (local + row) * kStateStride + col;
#pragma unroll
    for (int key = 0; key < kDim; key += 32) {
      unsigned b[4];
      load_b_long<Volta>(b, w_tile, part * 8, key);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 upper = *reinterpret_cast<const float2*>(rows + key + j * 8);
        const float2 bottom = *reinterpret_cast<const float2*>(rows + 8 * kStateStride + key + j * 8);
        const float a[4] = {upper.x, upper.y, bottom.x, bottom.y};
        mma_tile<Volta>(sum[j & 1], a, low_half(b[j]), high_half(b[j]));
      }
    }
    unsigned given[2];
    load_transposed<Volta>(given, u_tile, part * 8, local);
    const unsigned upper = pack(low_half(given[0]) - sum[0][0] - sum[1][0], high_half(given[0]) - sum[0][1] - sum[1][1]);
    const unsigned bottom = pack(low_half(given[1]) - sum[0][2] - sum[1][2], high_half(given[1]) - sum[0][3] - sum[1][3]);
    const float left = __expf(last - here.x), right = __expf(last - here.y);
    *reinterpret_cast<unsigned*>(vn_tile.at(local + row, part * 8 + col)) = pack(low_half(upper) * left, high_half(upper) * right);
    *reinterpret_cast<unsigned*>(vn_tile.at(local + row + 8, part * 8 + col)) =
        pack(low_half(bottom) * left, high_half(bottom) * right);
    __nv_bfloat16* stored = vn + (head_chunks + chunk) * kTile + (part * 8 + row) * kDim + value0 + local + col;
    *reinterpret_cast<unsigned*>(stored) = transpose8<Volta>(upper);
    *reinterpret_cast<unsigned*>(stored + 8) = transpose8<Volta>(bottom);
    copy_wait<Volta, 0>();  // k
    __syncthreads();
    fetch_wu(chunk + 1);

    // S <- e^G_last S + (diag(e^(G_last - G)) Vn)^T K for key dims part * 16 .. + 16.
    const float decay = __expf(last);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[n][j] *= decay;
#pragma unroll
    for (int t = 0; t < kChunk; t += 16) {
      unsigned a[4], b[4];
      load_a<Volta>(a, vn_tile, local, t);
      load_b_trans<Volta>(b, k_tile, t, part * 16);
      mma_bf16<Volta>(s[0], a, b[0], b[1]);
      mma_bf16<Volta>(s[1], a, b[2], b[3]);
    }
    __syncthreads();
    fetch_k(chunk + 1);
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    *reinterpret_cast<float2*>(state_out + state_row + n * 8) = make_float2(s[n][0], s[n][1]);
    *reinterpret_cast<float2*>(state_out + state_row + 8 * kDim + n * 8) = make_float2(s[n][2], s[n][3]);
  }
}

template <int Heads, bool Volta>
__global__ void __launch_bounds__(128)
    gdn_output(const __nv_bfloat16* qn, const __nv_bfloat16* kn, const __nv_bfloat16* vn, const __nv_bfloat16* snapshots,
               const float* sums, int chunks, int per_cta, float scale, __nv_bfloat16* out) {
  require_arch<Volta>();
  constexpr int kPiece = 32;  // value dims of one piece of a snapshot
  extern __shared__ __align__(128) unsigned char memory[];
  const Tile<kDim> first_tile{reinterpret_cast<__nv_bfloat16*>(memory)};           // k, then vn
  const Tile<kDim> second_tile{reinterpret_cast<__nv_bfloat16*>(memory) + kTile};  // q, then two snapshot pieces
  __shared__ float gate[kChunk];
  const int lane = lane_id(), warp = threadIdx.x / 32, row = lane / 4, col = lane % 4 * 2;
  const int head = blockIdx.y, qk_head = head / (Heads / kQkHeads);
  const int end = min(chunks, (static_cast<int>(blockIdx.x) + 1) * per_cta);

  for (int chunk = blockIdx.x * per_cta; chunk < end; ++chunk) {
    const long long place = static_cast<long long>(head) * chunks + chunk;
    const long long first = static_cast<long long>(chunk) * kChunk;
    const __nv_bfloat16* snapshot = snapshots + place * kDim * kDim;
    const auto fetch_piece = [&](int piece) {
      if (piece < kDim / kPiece) {
        each<kPiece * kDim / 8, 128>([&](int i) {
          copy16<Volta>(second_tile.piece(piece % 2 * kPiece + i / 16, i % 16), snapshot + piece * kPiece * kDim + i * 8, true);
        });
      }
      copy_commit<Volta>();
    };
    __syncthreads();
    if (threadIdx.x < kChunk) gate[threadIdx.x] = sums[place * kChunk + threadIdx.x];
    const long long rows = (first * kQkHeads + qk_head) * kDim;
    each<kTile / 8, 128>([&](int i) {
      const int offset = i / 16 * (kQkHeads * kDim) + i % 16 * 8;
      copy16<Volta>(first_tile.piece(i / 16, i % 16), kn + rows + offset, true);
      copy16<Volta>(second_tile.piece(i / 16, i % 16), qn + rows + offset, true);
    });
    copy_commit<Volta>();
    copy_wait<Volta, 0>();
    __syncthreads();

    unsigned q[8][4];
#pragma unroll
    for (int step = 0; step < 8; ++step) load_a<Volta>(q[step], second_tile, warp * 16, step * 16);
    unsigned p[4][4] = {};
    const float gate_upper = gate[warp * 16 + row], gate_bottom = gate[warp * 16 + row + 8];
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      if (block <= warp) {
        float dot[2][4] = {};
#pragma unroll
        for (int step = 0; step < 8; ++step) {
          unsigned b[4];
          load_b<Volta>(b, first_tile, block * 16, step * 16);
          mma_bf16<Volta>(dot[0], q[step], b[0], b[1]);
          mma_bf16<Volta>(dot[1], q[step], b[2], b[3]);
        }
#pragma unroll
        for (int tile = 0; tile < 2; ++tile)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int t = warp * 16 + row + (e >> 1) * 8, s = block * 16 + tile * 8 + col + (e & 1);
            dot[tile][e] = s <= t ? __expf((e >> 1 ? gate_bottom : gate_upper) - gate[s]) * dot[tile][e] : 0.0f;
          }
        p[block][0] = pack(dot[0][0], dot[0][1]), p[block][1] = pack(dot[0][2], dot[0][3]);
        p[block][2] = pack(dot[1][0], dot[1][1]), p[block][3] = pack(dot[1][2], dot[1][3]);
      }
    }
    __syncthreads();
    each<kTile / 8, 128>([&](int i) { copy16<Volta>(first_tile.piece(i / 16, i % 16), vn + place * kTile + i * 8, true); });
    fetch_piece(0);
    fetch_piece(1);

    const float upper = __expf(gate_upper), bottom = __expf(gate_bottom);
#pragma unroll
    for (int piece = 0; piece < kDim / kPiece; ++piece) {
      copy_wait<Volta, 1>();
      __syncthreads();
      float o[4][4] = {};
#pragma unroll
      for (int step = 0; step < 8; ++step)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          unsigned b[4];
          load_b<Volta>(b, second_tile, piece % 2 * kPiece + n * 16, step * 16);
          mma_bf16<Volta>(o[2 * n], q[step], b[0], b[1]);
          mma_bf16<Volta>(o[2 * n + 1], q[step], b[2], b[3]);
        }
#pragma unroll
      for (int n = 0; n < 4; ++n) o[n][0] *= upper, o[n][1] *= upper, o[n][2] *= bottom, o[n][3] *= bottom;
#pragma unroll
      for (int block = 0; block < 4; ++block) {
        if (block <= warp) {
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            unsigned b[4];
            load_b_trans<Volta>(b, first_tile, block * 16, piece * kPiece + n * 16);
            mma_bf16<Volta>(o[2 * n], p[block], b[0], b[1]);
            mma_bf16<Volta>(o[2 * n + 1], p[block], b[2], b[3]);
          }
        }
      }
      __nv_bfloat16* target = out + ((first + warp * 16 + row) * Heads + head) * kDim + piece * kPiece + col;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        *reinterpret_cast<unsigned*>(target + n * 8) = pack(o[n][0] * scale, o[n][1] * scale);
        *reinterpret_cast<unsigned*>(target + 8ll * Heads * kDim + n * 8) = pack(o[n][2] * scale, o[n][3] * scale);
      }
      __syncthreads();
      fetch_piece(piece + 2);
    }
  }
}

template <int Heads>
__global__ void __launch_bounds__(128)
    gdn_recurrent(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const float* g, const float* beta,
                  const float* state_in, int first, int tokens, float scale, __nv_bfloat16* out, float* state_out) {
  constexpr int kRows = 4;  // value dims of a warp
  const int lane = lane_id(), head = blockIdx.x, qk_head = head / (Heads / kQkHeads);
  const int value = blockIdx.z * 16 + threadIdx.x / 32 * kRows;
  float s[kRows][4];
  const long long state_row = (static_cast<long long>(head) * kDim + value) * kDim + lane * 4;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float4 x = *reinterpret_cast<const float4*>(state_in + state_row + r * kDim);
    s[r][0] = x.x, s[r][1] = x.y, s[r][2] = x.z, s[r][3] = x.w;
  }
  struct Token {
    uint2 q, k, v;
    float g, beta;
  };
  const auto load = [&](int token) {
    Token x{};
    if (token < tokens) {
      const long long qk = (static_cast<long long>(token) * kQkHeads + qk_head) * kDim + lane * 4;
      const long long row = static_cast<long long>(token) * Heads + head;
      x.q = *reinterpret_cast<const uint2*>(q + qk);
      x.k = *reinterpret_cast<const uint2*>(k + qk);
      x.v = *reinterpret_cast<const uint2*>(v + row * kDim + value);
      x.g = g[row];
      x.beta = beta[row];
    }
    return x;
  };
  struct Dots {
    float kk, qq, kq;
  };
  const auto dots = [&](const Token& x) {
    const float k0 = low_half(x.k.x), k1 = high_half(x.k.x), k2 = low_half(x.k.y), k3 = high_half(x.k.y);
    const float q0 = low_half(x.q.x), q1 = high_half(x.q.x), q2 = low_half(x.q.y), q3 = high_half(x.q.y);
    return Dots{warp_sum(k0 * k0 + k1 * k1 + k2 * k2 + k3 * k3), warp_sum(q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3),
                warp_sum(k0 * q0 + k1 * q1 + k2 * q2 + k3 * q3)};
  };
  Token next = load(first), later = load(first + 1);
  Dots coming = dots(next);
  for (int token = first; token < tokens; ++token) {
    const Token now = next;
    const Dots dot = coming;
    next = later;
    later = load(token + 2);
    const float kx[4] = {low_half(now.k.x), high_half(now.k.x), low_half(now.k.y), high_half(now.k.y)};
    const float qx[4] = {low_half(now.q.x), high_half(now.q.x), low_half(now.q.y), high_half(now.q.y)};
    // S q after the update is a S q + d (k.q): one round of sums serves both. The next token's own sums fill its gaps.
    float sums[2 * kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[r] = fmaf(s[r][i], kx[i], sums[r]);
        sums[kRows + r] = fmaf(s[r][i], qx[i], sums[kRows + r]);
      }
    warp_sums(sums);
    coming = dots(next);
    const float k_norm = rsqrtf(dot.kk + kNormEps), q_norm = rsqrtf(dot.qq + kNormEps), decay = __expf(now.g);
    const float values[kRows] = {low_half(now.v.x), high_half(now.v.x), low_half(now.v.y), high_half(now.v.y)};
    float o[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float d = now.beta * (values[r] - decay * k_norm * sums[r]) * k_norm;
#pragma unroll
      for (int i = 0; i < 4; ++i) s[r][i] = fmaf(decay, s[r][i], d * kx[i]);
      o[r] = scale * q_norm * fmaf(decay, sums[kRows + r], d * dot.kq);
    }
    if (lane == 0)
      *reinterpret_cast<uint2*>(out + (static_cast<long long>(token) * Heads + head) * kDim + value) =
          make_uint2(pack(o[0], o[1]), pack(o[2], o[3]));
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    *reinterpret_cast<float4*>(state_out + state_row + r * kDim) = make_float4(s[r][0], s[r][1], s[r][2], s[r][3]);
}
