// Gated delta net prefill in two stages over chunks of 16 tokens.
//
// Per value head, token after token: a = exp(g); d = beta * (v - a S k); S <- a S + d k^T; out = scale * S q, with
// S[value dim][key dim] and q, k replaced by x * rsqrt(sum x^2 + 1e-6). Over a chunk, G = inclusive sum of g:
//   D = solve (V - diag(e^G) K S^T)          solve = (I + L)^-1 diag(beta), L_ij = beta_i e^(G_i - G_j) k_i.k_j, j < i
//   out = scale * (diag(e^G) Q S^T + mqk D)  mqk_ij = e^(G_i - G_j) q_i.k_j, j <= i
//   S <- e^G_last S + (diag(e^(G_last - G)) D)^T K
// Tokens past `tokens` in the last chunk count as q = k = v = 0, g = 0, beta = 0.
//
// Pointers: q, k BF16 (tokens, 16, 128); v, out BF16 (tokens, Heads, 128); g, beta FP32 (tokens, Heads); state FP32
// (Heads, 128 value dims, 128 key dims); qk BF16 (16, chunks, 2, 16, 128), first k, then q, normalised; packets FP32
// (Heads, chunks, 576): solve 256 and mqk 256 in B operand order, prefix e^G 16, suffix e^(G_last - G) 16, 32 unused.
//
// gdn_two_stage_prepare<Heads, Ctas, Volta>: grid (Heads, chunks), block 256, no dynamic shared memory.
// gdn_two_stage_recurrence<Heads, Dv, Roles, Fetcher, Stages, Volta>: grid (128 / Dv, Heads), block
// 32 * (max(Dv / 16, 1) * Roles + Fetcher), dynamic shared memory Stages * Stage<Dv>::kBytes, and 2048 bytes a strip where
// Roles = 2. A warp holds a strip of S, 16 value dims by 128 key dims, in registers.
//   Heads 48 or 32; Ctas 1 to 8 CTAs per SM to leave registers for; Dv 8, 16, 32, 64 value dims of a CTA; Roles 1: one
//   warp a strip, 2: one for D and one for the outputs; Fetcher: one more warp makes all copies; Stages >= 2 + Roles chunks
//   in shared memory; Volta: see include/gdn.cuh. Sharing a strip's keys between warps was slower on an H200 (2026-11-29):
//   the partial sums cross the CTA at every chunk.
#include "gdn.cuh"
#include "reduce.cuh"

using namespace gdn;

constexpr int kChunk = 16;
constexpr int kPacket = 576;
constexpr int kMqk = 256, kPrefix = 512, kSuffix = 528;

// Place of element (t, s) of a 16x16 matrix whose transpose is a B operand: lane 4 * (t % 8) + s % 8 / 2 finds its four
// values of column tile t / 8 together.
__device__ __forceinline__ int operand_index(int t, int s) {
  return ((t >> 3) * 32 + (t & 7) * 4 + (s & 7) / 2) * 4 + (s >> 3) * 2 + (s & 1);
}

template <int Heads, int Ctas, bool Volta>
__global__ void __launch_bounds__(256, Ctas)
    gdn_two_stage_prepare(const __nv_bfloat16* q, const __nv_bfloat16* k, const float* g, const float* beta, int tokens,
                          __nv_bfloat16* qk, float* packets) {
  static_assert(Heads % kQkHeads == 0, "value heads are a multiple of the query/key heads");
  require_arch<Volta>();
  __shared__ __align__(128) __nv_bfloat16 rows[2][kChunk * kDim];  // k, q
  __shared__ __align__(16) float lower[kChunk * kChunk];
  __shared__ float gate[kChunk], weight[kChunk];
  const int head = blockIdx.x, chunk = blockIdx.y, chunks = gridDim.y, first = chunk * kChunk;
  const int lane = lane_id(), warp = threadIdx.x / 32, qk_head = head / (Heads / kQkHeads);
  __nv_bfloat16* stored = qk + (static_cast<long long>(qk_head) * chunks + chunk) * (2 * kChunk * kDim);

  // Warps 0 to 3 normalise k, 4 to 7 q: half a warp a row, both rows of a half under way at once.
  const __nv_bfloat16* source = warp < 4 ? k : q;
  uint4 raw[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int token = first + warp % 4 * 4 + j * 2 + lane / 16;
    const long long offset = (static_cast<long long>(token) * kQkHeads + qk_head) * kDim + lane % 16 * 8;
    raw[j] = token < tokens ? *reinterpret_cast<const uint4*>(source + offset) : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int row = warp % 4 * 4 + j * 2 + lane / 16;
    const uint4 unit = normalised(raw[j]);
    *reinterpret_cast<uint4*>(Tile<kDim>{rows[warp / 4]}.piece(row, lane % 16)) = unit;
    if (head % (Heads / kQkHeads) == 0)
      *reinterpret_cast<uint4*>(stored + (warp / 4 * kChunk + row) * kDim + lane % 16 * 8) = unit;
  }
  if (warp == 7) {
    const int token = first + lane;
    const bool live = lane < kChunk && token < tokens;
    const float sum = prefix_sum(live ? g[static_cast<long long>(token) * Heads + head] : 0.0f);
    if (lane < kChunk) {
      gate[lane] = sum;
      weight[lane] = live ? beta[static_cast<long long>(token) * Heads + head] : 0.0f;
    }
  }
  __syncthreads();

  float* packet = packets + (static_cast<long long>(head) * chunks + chunk) * kPacket;
  if (warp < 4) {
    // Warps 0 and 1: k.k, 2 and 3: q.k; of each pair one takes columns 0 to 7, the other 8 to 15.
    const int source = warp >> 1, tile = warp & 1;
    float dot[2][4] = {};
#pragma unroll 1
    for (int col = 0; col < kDim; col += 32) {
      unsigned b[4];
      load_b_long<Volta>(b, Tile<kDim>{rows[0]}, tile * 8, col);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned a[4];
        load_a<Volta>(a, Tile<kDim>{rows[source]}, 0, col + half * 16);
        mma_bf16<Volta>(dot[half], a, b[2 * half], b[2 * half + 1]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = lane / 4 + half * 8, s = tile * 8 + lane % 4 * 2;
      float value[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        value[j] = __expf(gate[t] - gate[s + j]) * (dot[0][half * 2 + j] + dot[1][half * 2 + j]);
        if (source == 0) value[j] *= weight[t];
        // Not a product with 0: past the diagonal the exponential may overflow.
        if (s + j > t || (source == 0 && s + j == t)) value[j] = 0.0f;
      }
      float* target = source == 0 ? lower + t * kChunk + s : packet + kMqk + operand_index(t, s);
      *reinterpret_cast<float2*>(target) = make_float2(value[0], value[1]);
    }
  } else if (warp == 4 && lane < kChunk) {
    packet[kPrefix + lane] = __expf(gate[lane]);
    packet[kSuffix + lane] = __expf(gate[kChunk - 1] - gate[lane]);
  }
  __syncthreads();
  if (warp == 0 && lane < kChunk) {
    float x[16];
    invert_column<kChunk>(x, lower, 1.0f, lane);
#pragma unroll
    for (int t = 0; t < kChunk; ++t) packet[operand_index(t, lane)] = x[t] * weight[lane];
  }
}

// Shared memory of one chunk: k and q rows, the CTA's columns of v, the packet.
template <int Dv>
struct Stage {
  static constexpr int kRows = kChunk * kDim * 2, kValues = kChunk * Dv * 2;
  static constexpr int kBytes = 2 * kRows + kValues + kPacket * 4;
  unsigned char* base;
  __device__ __forceinline__ Tile<kDim> k() const { return {reinterpret_cast<__nv_bfloat16*>(base)}; }
  __device__ __forceinline__ Tile<kDim> q() const { return {reinterpret_cast<__nv_bfloat16*>(base + kRows)}; }
  __device__ __forceinline__ Tile<Dv> v() const { return {reinterpret_cast<__nv_bfloat16*>(base + 2 * kRows)}; }
  __device__ __forceinline__ float* packet() const { return reinterpret_cast<float*>(base + 2 * kRows + kValues); }
};

constexpr int kTiles = kDim / 8;  // accumulator tiles of 16 value dims by 128 key dims

// The B operands of a 16x128 tile, k = token (Trans) or k = key dim, all read ahead of their products; the Volta form, short
// of registers, reads each at its use.
template <bool Trans, bool Volta>
struct Operands {
  Tile<kDim> tile;
  unsigned held[Volta ? 1 : kTiles / 2][4];
  __device__ __forceinline__ explicit Operands(Tile<kDim> from) : tile(from) {
    if constexpr (!Volta) {
#pragma unroll
      for (int n = 0; n < kTiles / 2; ++n) read(held[n], n);
    }
  }
  __device__ __forceinline__ void read(unsigned (&b)[4], int n) const {
    if constexpr (Trans)
      load_b_trans<Volta>(b, tile, 0, n * 16);
    else
      load_b<Volta>(b, tile, 0, n * 16);
  }
  __device__ __forceinline__ void get(unsigned (&b)[4], int n) const {
    if constexpr (Volta) {
      read(b, n);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = held[n][j];
    }
  }
};

// [value dim][token] of S K^T, TF32: S cut to TF32, K exact. Two sums a tile shorten the chains.
template <bool Volta>
__device__ __forceinline__ void state_times_k(float (&sum)[2][4], float (&odd)[2][4], const float (&s)[kTiles][4],
                                              const Operands<false, Volta>& k) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    unsigned b[4];
    k.get(b, n / 2);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      mma_tile<Volta>(sum[tile], s[n], low_half(b[2 * tile]), high_half(b[2 * tile]));
      mma_tile<Volta>(odd[tile], s[n + 1], low_half(b[2 * tile + 1]), high_half(b[2 * tile + 1]));
    }
  }
}

// [value dim][token] of S Q^T, BF16.
template <bool Volta>
__device__ __forceinline__ void state_times_q(float (&sum)[2][4], const float (&s)[kTiles][4],
                                              const Operands<false, Volta>& q) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    unsigned b[4];
    q.get(b, n / 2);
    const unsigned a[4] = {pack(s[n][0], s[n][1]), pack(s[n][2], s[n][3]), pack(s[n + 1][0], s[n + 1][1]),
                           pack(s[n + 1][2], s[n + 1][3])};
    mma_bf16<Volta>(sum[0], a, b[0], b[1]);
    mma_bf16<Volta>(sum[1], a, b[2], b[3]);
  }
}

__device__ __forceinline__ void scale_state(float (&s)[kTiles][4], float factor) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) s[n][j] *= factor;
}

// S <- S + (diag(suffix) D)^T K, BF16; `suffix` of tokens 2l, 2l + 1 and eight on.
template <bool Volta>
__device__ __forceinline__ void add_outer(float (&s)[kTiles][4], const float (&d)[2][4], const float2 (&suffix)[2],
                                          const Operands<true, Volta>& k) {
  const unsigned a[4] = {pack(d[0][0] * suffix[0].x, d[0][1] * suffix[0].y), pack(d[0][2] * suffix[0].x, d[0][3] * suffix[0].y),
                         pack(d[1][0] * suffix[1].x, d[1][1] * suffix[1].y), pack(d[1][2] * suffix[1].x, d[1][3] * suffix[1].y)};
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    unsigned b[4];
    k.get(b, n / 2);
    mma_bf16<Volta>(s[n], a, b[0], b[1]);
    mma_bf16<Volta>(s[n + 1], a, b[2], b[3]);
  }
}

// Two values of each half of a row of 16: tokens 2l, 2l + 1 and eight on.
__device__ __forceinline__ void read_pairs(float2 (&x)[2], const float* row) {
  x[0] = *reinterpret_cast<const float2*>(row + lane_id() % 4 * 2);
  x[1] = *reinterpret_cast<const float2*>(row + 8 + lane_id() % 4 * 2);
}

template <int Heads, int Dv, int Roles, bool Fetcher, int Stages, bool Volta>
__global__ void __launch_bounds__(32 * ((Dv < 16 ? 1 : Dv / 16) * Roles + Fetcher))
    gdn_two_stage_recurrence(const __nv_bfloat16* qk, const float* packets, const __nv_bfloat16* v, const float* state_in,
                             int tokens, float scale, __nv_bfloat16* out, float* state_out) {
  static_assert(Dv == 8 || Dv == 16 || Dv == 32 || Dv == 64, "a CTA has 8, 16, 32 or 64 value dims");
  static_assert(Roles == 1 || Roles == 2, "one warp does all of a strip, or one the state and one the outputs");
  static_assert(Stages >= 2 + Roles, "a chunk on its way beside those in use");
  require_arch<Volta>();
  constexpr int kStrips = Dv < 16 ? 1 : Dv / 16, kWorkers = 32 * kStrips * Roles, kAhead = Stages - Roles;
  constexpr int kThreads = Fetcher ? 32 : kWorkers;  // that copy
  extern __shared__ __align__(128) unsigned char memory[];

  const int lane = lane_id(), warp = threadIdx.x / 32, strip = warp % kStrips, role = warp / kStrips;
  const int row = lane / 4, col = lane % 4 * 2;
  const int head = blockIdx.y, qk_head = head / (Heads / kQkHeads), value0 = blockIdx.x * Dv;
  const int chunks = (tokens + kChunk - 1) / kChunk;
  const __nv_bfloat16* rows = qk + static_cast<long long>(qk_head) * chunks * (2 * kChunk * kDim);
  const float* packet_rows = packets + static_cast<long long>(head) * chunks * kPacket;
  float4* deltas = reinterpret_cast<float4*>(memory + Stages * Stage<Dv>::kBytes) + strip * 64 + lane;  // [2][strip][2][lane]

  int fetched = 0, slot = 0;
  const int thread = Fetcher ? lane : static_cast<int>(threadIdx.x);
  const auto fetch = [&] {
    if (fetched < chunks) {
      const Stage<Dv> stage{memory + slot * Stage<Dv>::kBytes};
      const __nv_bfloat16* source = rows + static_cast<long long>(fetched) * (2 * kChunk * kDim);
      each<2 * kChunk * kDim / 8, kThreads>(
          thread, [&](int i) { copy16<Volta>(stage.k().piece(i / 16, i % 16), source + i * 8, true); });
      const __nv_bfloat16* value = v + (static_cast<long long>(fetched) * kChunk * Heads + head) * kDim + value0;
      const int left = tokens - fetched * kChunk;
      each<kChunk * Dv / 8, kThreads>(thread, [&](int i) {
        const int t = i / (Dv / 8), piece = i % (Dv / 8);
        copy16<Volta>(stage.v().piece(t, piece), value + (t < left ? t * (Heads * kDim) : 0) + piece * 8, t < left);
      });
      const float* packet = packet_rows + static_cast<long long>(fetched) * kPacket;
      each<kPacket / 4 - 8, kThreads>(thread, [&](int i) { copy16<Volta>(stage.packet() + i * 4, packet + i * 4, true); });
    }
    copy_commit<Volta>();
    ++fetched;
    slot = slot + 1 == Stages ? 0 : slot + 1;
  };

  if (!Fetcher || threadIdx.x >= kWorkers) {
    for (int chunk = 0; chunk < kAhead; ++chunk) fetch();
    if constexpr (Fetcher) {
      for (int chunk = 0; chunk < chunks + Roles - 1; ++chunk) {
        copy_wait<Volta, kAhead - 1>();
        block_barrier();
        fetch();
      }
      return;
    }
  }

  float s[kTiles][4];
  const long long state_row = (static_cast<long long>(head) * kDim + value0 + strip * 16 + row) * kDim + col;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float2 upper = *reinterpret_cast<const float2*>(state_in + state_row + n * 8);
    float2 bottom = make_float2(0.0f, 0.0f);
    if (Dv >= 16) bottom = *reinterpret_cast<const float2*>(state_in + state_row + 8 * kDim + n * 8);
    s[n][0] = upper.x, s[n][1] = upper.y, s[n][2] = bottom.x, s[n][3] = bottom.y;
  }

  // The part of a chunk's work that the next chunk waits for: D, and the state after the chunk. `between` is done where D's
  // products leave time. The state is scaled as soon as its products are under way.
  const auto pass = [&](float(&d)[2][4], Stage<Dv> stage, auto&& between) {
    const float* packet = stage.packet();
    const Operands<false, Volta> k(stage.k());
    const Operands<true, Volta> k_trans(stage.k());
    unsigned values[2][2] = {};
    float2 prefix[2], suffix[2];
    float4 solve[2];
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      if constexpr (Dv >= 16) {
        load_transposed<Volta>(values[tile], stage.v(), tile * 8, strip * 16);
      } else {
        values[tile][0] = two(stage.v().at(tile * 8 + col, row), stage.v().at(tile * 8 + col + 1, row));
      }
      solve[tile] = *reinterpret_cast<const float4*>(packet + (tile * 32 + lane) * 4);
    }
    read_pairs(prefix, packet + kPrefix);
    read_pairs(suffix, packet + kSuffix);
    const float decay = packet[kPrefix + kChunk - 1];
    float sk[2][4] = {}, odd[2][4] = {}, r[2][4];
    state_times_k<Volta>(sk, odd, s, k);
    between();
    scale_state(s, decay);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      r[tile][0] = low_half(values[tile][0]) - prefix[tile].x * (sk[tile][0] + odd[tile][0]);
      r[tile][1] = high_half(values[tile][0]) - prefix[tile].y * (sk[tile][1] + odd[tile][1]);
      r[tile][2] = low_half(values[tile][1]) - prefix[tile].x * (sk[tile][2] + odd[tile][2]);
      r[tile][3] = high_half(values[tile][1]) - prefix[tile].y * (sk[tile][3] + odd[tile][3]);
    }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) d[tile][j] = 0.0f;
      mma_tile<Volta>(d[tile], r[0], solve[tile].x, solve[tile].y);
      mma_tile<Volta>(d[tile], r[1], solve[tile].z, solve[tile].w);
    }
    add_outer<Volta>(s, d, suffix, k_trans);
  };
  // Outputs of a chunk from S Q^T and D.
  const auto store = [&](const float(&sq)[2][4], const float(&d)[2][4], int chunk, const float2(&prefix)[2],
                         const float4(&mqk)[2]) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      float o[4] = {sq[tile][0] * prefix[tile].x, sq[tile][1] * prefix[tile].y, sq[tile][2] * prefix[tile].x,
                    sq[tile][3] * prefix[tile].y};
      mma_tile<Volta>(o, d[0], mqk[tile].x, mqk[tile].y);
      mma_tile<Volta>(o, d[1], mqk[tile].z, mqk[tile].w);
      const unsigned upper = transpose8<Volta>(pack(o[0] * scale, o[1] * scale));
      const unsigned bottom = transpose8<Volta>(pack(o[2] * scale, o[3] * scale));
      const int token = chunk * kChunk + tile * 8 + row;
      if (token < tokens) {
        __nv_bfloat16* target = out + (static_cast<long long>(token) * Heads + head) * kDim + value0 + strip * 16 + col;
        *reinterpret_cast<unsigned*>(target) = upper;
        if (Dv >= 16) *reinterpret_cast<unsigned*>(target + 8) = bottom;
      }
    }
  };
  const auto read_mqk = [&](float4(&mqk)[2], const float* packet) {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) mqk[tile] = *reinterpret_cast<const float4*>(packet + kMqk + (tile * 32 + lane) * 4);
  };

  // The next chunk is here for every warp, and the buffer of one that no warp reads any more is being filled.
  const auto turn = [&] {
    if constexpr (!Fetcher) copy_wait<Volta, kAhead - 1>();
    block_barrier();
    if constexpr (!Fetcher) fetch();
  };
  int place = 0;
  const auto stage_at = [&] {
    const Stage<Dv> stage{memory + place * Stage<Dv>::kBytes};
    place = place + 1 == Stages ? 0 : place + 1;
    return stage;
  };
  float d[2][4];
  if constexpr (Roles == 1) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      turn();
      const Stage<Dv> stage = stage_at();
      float sq[2][4] = {};
      float2 prefix[2];
      float4 mqk[2];
      pass(d, stage, [&] { state_times_q<Volta>(sq, s, Operands<false, Volta>(stage.q())); });
      read_pairs(prefix, stage.packet() + kPrefix);
      read_mqk(mqk, stage.packet());
      store(sq, d, chunk, prefix, mqk);
    }
  } else if (role == 0) {
    // D crosses to the other warp, which follows one chunk behind; both advance the state. A loop each: the operands of
    // TF32 and BF16 products want the state in different registers.
    for (int chunk = 0; chunk < chunks; ++chunk) {
      turn();
      pass(d, stage_at(), [] {});
      float4* mine = deltas + (chunk & 1) * kStrips * 64;
      mine[0] = make_float4(d[0][0], d[0][1], d[0][2], d[0][3]);
      mine[32] = make_float4(d[1][0], d[1][1], d[1][2], d[1][3]);
    }
    turn();
  } else {
    turn();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      turn();
      const Stage<Dv> stage = stage_at();
      const Operands<false, Volta> q(stage.q());
      const Operands<true, Volta> k_trans(stage.k());
      const float4* theirs = deltas + (chunk & 1) * kStrips * 64;
      const float4 x = theirs[0], y = theirs[32];
      d[0][0] = x.x, d[0][1] = x.y, d[0][2] = x.z, d[0][3] = x.w;
      d[1][0] = y.x, d[1][1] = y.y, d[1][2] = y.z, d[1][3] = y.w;
      float2 prefix[2], suffix[2];
      float4 mqk[2];
      read_pairs(prefix, stage.packet() + kPrefix);
      read_pairs(suffix, stage.packet() + kSuffix);
      read_mqk(mqk, stage.packet());
      const float decay = stage.packet()[kPrefix + kChunk - 1];
      float sq[2][4] = {};
      state_times_q<Volta>(sq, s, q);
      scale_state(s, decay);
      add_outer<Volta>(s, d, suffix, k_trans);
      store(sq, d, chunk, prefix, mqk);
    }
  }

  if (role == 0) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      *reinterpret_cast<float2*>(state_out + state_row + n * 8) = make_float2(s[n][0], s[n][1]);
      if (Dv >= 16) *reinterpret_cast<float2*>(state_out + state_row + 8 * kDim + n * 8) = make_float2(s[n][2], s[n][3]);
    }
  }
}
