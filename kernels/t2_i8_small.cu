// Ternary projection of at most 32 columns: out[n, t] (+)= sum over 64-groups g of
//   (weight_scale[n, g / 2] * x_scale[g, t]) * sum over k of code[n, k] * x_code[t, k]
// with int32 inner sums, FP32 outer sums and one rounding to BF16. Two parents (a pair) share one grid: first the CTAs of
// parent a, then those of parent b.
//
// t2_a8_small: quantise activations. Grid (ceil(K / 64 / 8), T rounded up to 8), block 256: a warp a (group, token).
//   x        BF16 [T][K]
//   codes    int8 [K / 64][192][64], so that the fragments of eight columns are 512 consecutive bytes; in each block of 16, k is
//            byte (k mod 4) * 4 + k / 4
//   scales   FP16 [K / 128][192][2], the two groups of a weight scale side by side; columns from T up to the padding get scale 0
//            and no codes
//   scale = f16(amax / 127), code = clamp(rint(x * (127 / amax)), -127, 127), amax = max(max |x|, 1e-20)
//
// t2_i8_small: project. Grid N / rows, block 256, static shared memory as below.
//   codes_*  T2 codes, 32 bytes a 128-group, [N][K / 128][32]; 00 0, 01 +1, 11 -1, 10 -2
//   scales_* FP16 [N][K / 128]
//   x_codes, x_scales: of the span's first column
//   out_*    BF16, token-major: rows below split_* of a parent go to out_*0, the others to out_*1, strides in elements
//   rows_a   rows of parent a (the whole N when there is one parent)
//   live     columns of this span, at most 8 CT;  add: accumulate into out
//
// Template parameters (the schedule is nothing else):
//   KWarps   4 or 8   warps along K; the other 8 / KWarps go along rows
//   TPW      1 or 2   16-row tiles a warp
//   CT       1, 2, 4  8-column tiles
//   St       2 or 3   stages of the weight ring; K is at least so many slabs
//   MB       3 or 4   CTAs an SM that the compiler must leave room for
//   W        1 or 2   code words a lane and slab
// rows = 16 (8 / KWarps) TPW, K slab = 64 W KWarps. Warp w takes k split w mod KWarps of each slab. Shared memory: the ring,
// rows x (slab / 4 + 16 pad + slab / 64 scale bytes) a stage, or the FP32 partial tiles of the reduction if larger.
//
// A slab's codes and scales go from shared memory to registers at once and a second barrier frees the stage, so that St slabs are
// under way while one is multiplied (with four accumulator tiles a warp registers are short: St - 1, and one barrier). Activation
// fragments come from global memory a word ahead: their loads stand before the branch of the loop, because in the basic block of
// the wait the compiler puts them behind it. On an H200 the loop of one accumulator tile was bound by issue slots, hence ldmatrix
// for the codes and a tensor product for the four products of scales.
// Tried: hints to the L2 for the CTA's rows, or for those of a later CTA, L2 sizes on the copies, sums that start at the bits of
// 1.5 * 2^23 in place of a conversion (registers); none helps.
//
// From sm_90 on the projection may be a programmatic dependent of the kernel before: its ring fills while activations are quantised.
// It reads nothing that kernel writes before wait_for_kernel_before(), and stores only after it. The quantisation is a plain
// launch: it starts when everything before it has ended, so a graph may be replayed although it writes the same scratch again.
#include "cp_async.cuh"
#include "dependent.cuh"
#include "mma.cuh"
#include "reduce.cuh"
#include "ternary.cuh"

constexpr int kColumns = 192;  // capacity of the quantised activations

extern "C" __global__ void __launch_bounds__(256)
    t2_a8_small(const __nv_bfloat16* x, signed char* codes, __half* scales, int k, int live) {
  allow_dependents();
  const int lane = threadIdx.x % 32;
  const int group = blockIdx.x * 8 + threadIdx.x / 32, t = blockIdx.y;
  if (group >= k / 64) return;
  scales += (group / 2 * kColumns + t) * 2 + group % 2;
  if (t >= live) {
    if (lane == 0) *scales = __float2half_rn(0.0f);
    return;
  }
  const long long start = static_cast<long long>(t) * k + group * 64;
  const unsigned pair = reinterpret_cast<const unsigned*>(x + start)[lane];
  const float even = bf16_low(pair), odd = bf16_high(pair);
  const float amax = fmaxf(warp_max(fmaxf(fabsf(even), fabsf(odd))), 1e-20f);
  const float inverse = 127.0f / amax;
  const int q_even = max(-127, min(127, __float2int_rn(even * inverse)));
  const int q_odd = max(-127, min(127, __float2int_rn(odd * inverse)));
  // Even lanes hold k mod 4 = 0, 1, odd ones 2, 3; the four of a kind in a block of eight lanes gather their bytes.
  const int shift = lane % 8 / 2 * 8;
  uint2 words = {(q_even & 0xFFu) << shift, (q_odd & 0xFFu) << shift};
#pragma unroll
  for (int step = 2; step <= 4; step += 2) {
    words.x |= __shfl_xor_sync(0xFFFFFFFFu, words.x, step);
    words.y |= __shfl_xor_sync(0xFFFFFFFFu, words.y, step);
  }
  signed char* const to = codes + (static_cast<long long>(group) * kColumns + t) * 64;
  if (lane % 8 < 2) *reinterpret_cast<uint2*>(to + lane / 8 * 16 + lane % 2 * 8) = words;
  if (lane == 0) *scales = __float2half_rn(amax / 127.0f);
}

// CTAs that the compiler leaves room for: one accumulator tile a warp needs so few registers that one more than the schedule
// asks fits, except that on sm_120 a third stage or a second row of warps would spill.
template <int MB, int Tiles, bool Plain>
constexpr int room() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  return Tiles == 1 && Plain ? MB + 1 : MB;
#else
  return Tiles == 1 ? MB + 1 : MB;
#endif
}

// Reads of the quantised activations, into zeros that stay in the lanes of columns that do not exist. Volatile, so that none
// moves up past wait_for_kernel_before(), and not .nc, because the kernel before may still have been writing when this one began.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-ld
__device__ __forceinline__ void read_16_if(uint4& value, const void* global, bool wanted) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.v4.u32 {%0,%1,%2,%3}, [%4];}"
               : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
               : "l"(global), "r"(static_cast<int>(wanted)));
}
template <int Bytes>
__device__ __forceinline__ void read_if(unsigned& value, const void* global, bool wanted) {
  static_assert(Bytes == 2 || Bytes == 4, "one or two FP16 numbers");
  if constexpr (Bytes == 2)
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.u16 %0, [%1];}"
                 : "+r"(value)
                 : "l"(global), "r"(static_cast<int>(wanted)));
  else
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p ld.global.u32 %0, [%1];}"
                 : "+r"(value)
                 : "l"(global), "r"(static_cast<int>(wanted)));
}

// d[row][column] = 4 * a[row] * b[column], exact: FP16 values in the low half of a register, the same in the four lanes of a row or
// column; above them zero in `a`, anything finite in `b`. https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-fragment-mma-1688
__device__ __forceinline__ void scale_products(float (&d)[4], const unsigned (&a)[2], unsigned b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "f"(0.0f));
}
constexpr float kScaleUnit = 1.0f / 4.0f;

template <int KWarps, int TPW, int CT, int St, int MB, int W>
__global__ void __launch_bounds__(256, room<MB, CT * TPW, St == 2 && KWarps == 8>())
    t2_i8_small(const unsigned char* codes_a, const __half* scales_a, const unsigned char* codes_b, const __half* scales_b,
                const signed char* x_codes, const __half* x_scales, __nv_bfloat16* out_a0, __nv_bfloat16* out_a1,
                __nv_bfloat16* out_b0, __nv_bfloat16* out_b1, int k, int rows_a, int split_a, int split_b, int stride_a0,
                int stride_a1, int stride_b0, int stride_b1, int live, int add) {
  static_assert(KWarps == 4 || KWarps == 8, "KWarps is 4 or 8: eight warps, along K first");
  static_assert(TPW == 1 || TPW == 2, "TPW is 1 or 2");
  static_assert(CT == 1 || CT == 2 || CT == 4, "CT is 1, 2 or 4: at most 32 columns a launch");
  static_assert(St >= 2, "the ring needs a stage to fill while another is read");
  static_assert(W == 1 || W == 2, "W is 1 or 2");
  constexpr int kRows = 16 * (8 / KWarps) * TPW;
  constexpr int kSlab = 64 * W * KWarps;
  constexpr int kCodeBytes = kSlab / 4, kCodeStride = kCodeBytes + 16;
  constexpr int kScaleBytes = kSlab / 64;
  constexpr int kStage = kRows * (kCodeStride + kScaleBytes);
  constexpr int kReduce = 8 * TPW * CT * 512;
  constexpr int kFlight = CT * TPW >= 4 ? St - 1 : St;  // slabs under way
  constexpr int kAhead = CT >= 2 ? 1 : W;               // code words whose activations are read ahead
  constexpr int kTurn = CT * TPW >= 4 ? 1 : St;         // slabs a loop iteration: a whole turn makes all offsets constants
  // Two by two accumulator tiles in 64 registers: activation scales come one at a time, on sm_120 codes too.
  constexpr int kScales = CT == 2 && TPW == 2 ? 1 : W;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  constexpr bool kByWord = kScales < W;
#else
  constexpr bool kByWord = false;
#endif
  __shared__ __align__(16) unsigned char shared[St * kStage > kReduce ? St * kStage : kReduce];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, l = lane % 4;
  const int k_split = KWarps == 8 ? warp : warp % KWarps, first_tile = KWarps == 8 ? 0 : warp / KWarps * TPW;
  const unsigned groups = static_cast<unsigned>(k) / 128, slabs = static_cast<unsigned>(k) / kSlab;

  int row = blockIdx.x * kRows;
  const bool parent_b = row >= rows_a;
  row -= parent_b ? rows_a : 0;
  const unsigned char* const codes = parent_b ? codes_b : codes_a;
  const __half* const scales = parent_b ? scales_b : scales_a;

  // This thread's pieces of a slab, as 32-bit offsets that move on with every ring turn.
  constexpr int kChunks = kCodeBytes / 16, kPieces = (kRows * kChunks + 255) / 256;
  const bool copies_codes = kRows * kChunks % 256 == 0 || threadIdx.x < kRows * kChunks;
  const bool copies_scales = threadIdx.x < kRows;
  const unsigned first_group = row * groups;
  unsigned from_codes = (first_group + threadIdx.x / kChunks * groups) * 32 + threadIdx.x % kChunks * 16;
  unsigned from_scales = first_group + threadIdx.x * groups;
  const unsigned ring = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  // `slab` counts from the offsets, `stage` is where it goes.
  const auto fetch = [&](int slab, int stage) {
    unsigned thread = threadIdx.x;
    if (kTurn == 1) asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));  // or its addresses are kept over the loop, and spilled
    const unsigned to_codes = ring + thread / kChunks * kCodeStride + thread % kChunks * 16;
    const unsigned to_scales = ring + kRows * kCodeStride + thread * kScaleBytes;
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      cp_async_cg_if(to_codes + stage * kStage + i * (256 / kChunks) * kCodeStride,
                     codes + from_codes + slab * kCodeBytes + i * (256 / kChunks) * 32 * groups, copies_codes);
    // Where registers are short the offset is added in bytes: that sum takes the plane's address from a uniform register.
    const void* scale_at = scales + from_scales + slab * (kSlab / 128);
    if (kTurn == 1) scale_at = reinterpret_cast<const unsigned char*>(scales) + from_scales * 2 + slab * (kSlab / 64);
    cp_async_ca_if<kScaleBytes>(to_scales + stage * kStage, scale_at, copies_scales);
  };

#pragma unroll
  for (int slab = 0; slab < kFlight; ++slab) {
    fetch(slab, slab);
    cp_async_commit();
  }
  allow_dependents();
  wait_for_kernel_before();

  float acc[TPW][CT][4] = {};
  uint4 x_ahead[kAhead][CT] = {};
  unsigned x_scale[CT] = {};
  unsigned from_x = (k_split * W * kColumns + g) * 64 + 16 * l;
  constexpr bool kOneOffset = W == 2 && kTurn > 1;  // a register less where each tile of the loop has few
  unsigned from_x_scales = (k_split * W / 2 * kColumns + g) * 2 + k_split * W % 2;
  const auto read_x = [&](int group, uint4(&b)[CT], int columns) {
#pragma unroll
    for (int ct = 0; ct < CT; ++ct)
      read_16_if(b[ct], x_codes + from_x + (group * kColumns + 8 * ct) * 64, ct * 8 + g < columns);
  };
  const auto read_x_scales = [&](int group, int columns) {
#pragma unroll
    for (int ct = 0; ct < CT; ++ct)
      read_if<2 * kScales>(x_scale[ct], x_scales + (kOneOffset ? from_x / 64 + g : from_x_scales) +
                                            (group / 2 * 2 * kColumns + group % 2 + 16 * ct),
                           ct * 8 + (kScales < W ? 0 : g) < columns);
  };
  // For ldmatrix: matrix i of a tile is rows 8 (i mod 2) and on of word i / 2.
  const unsigned char* const lane_codes =
      shared + (first_tile * 16 + lane % 16) * kCodeStride + (k_split * W + (W == 2 ? lane / 16 : 0)) * 16;
  const unsigned char* const lane_scales =
      shared + kRows * kCodeStride + (first_tile * 16 + g) * kScaleBytes + k_split * W / 2 * 2;
  unsigned words[TPW][2 * W], scale[TPW][2];  // rows g and g + 8 of each word; of each tile
  const auto read_scale = [&](int tile, int stage) {
    const unsigned char* const at = lane_scales + stage * kStage + tile * 16 * kScaleBytes;
    scale[tile][0] = *reinterpret_cast<const unsigned short*>(at);
    scale[tile][1] = *reinterpret_cast<const unsigned short*>(at + 8 * kScaleBytes);
  };
  const auto read_tile = [&](int tile, int stage) {
    const unsigned char* const at = lane_codes + stage * kStage + tile * 16 * kCodeStride;
    if constexpr (W == 2)
      ldmatrix_x4(words[tile], at);
    else
      ldmatrix_x2(words[tile], at);
    read_scale(tile, stage);
  };
  const auto read_word = [&](int tile, int stage, int j) {
    unsigned rows[2];
    ldmatrix_x2(rows, shared + stage * kStage + ((first_tile + tile) * 16 + lane % 16) * kCodeStride + (k_split * W + j) * 16);
    words[tile][2 * j] = rows[0], words[tile][2 * j + 1] = rows[1];
    read_scale(tile, stage);
  };
#pragma unroll
  for (int j = 0; j < kAhead; ++j) read_x(j, x_ahead[j], live);
  read_x_scales(0, live);
#pragma unroll 1
  for (unsigned first = 0; first < slabs; first += kTurn) {
#pragma unroll
    for (int turn = 0; turn < kTurn; ++turn) {
      if (turn > 0 && first + turn >= slabs) break;
      const int stage = kTurn > 1 ? turn : first % St;
      cp_async_wait<kFlight - 1>();
      __syncthreads();
      if (kFlight == St) {
#pragma unroll
        for (int tile = 0; tile < TPW; ++tile) read_tile(tile, stage);
        __syncthreads();
      }
      if (first + turn + kFlight < slabs) fetch(turn + kFlight, (stage + kFlight) % St);
      cp_async_commit();
#pragma unroll
      for (int j = 0; j < W; ++j) {
        uint4(&b)[CT] = x_ahead[j % kAhead];
#pragma unroll
        for (int tile = 0; tile < TPW; ++tile) {
          if (kByWord)
            read_word(tile, stage, j);
          else if (kFlight < St && j == 0)
            read_tile(tile, stage);
          unsigned top[4], bottom[4];
          ternary_fragments(words[tile][2 * j], top);
          ternary_fragments(words[tile][2 * j + 1], bottom);
          const unsigned a0[4] = {top[0], bottom[0], top[1], bottom[1]};
          const unsigned a1[4] = {top[2], bottom[2], top[3], bottom[3]};
#pragma unroll
          for (int ct = 0; ct < CT; ++ct) {
            int sum[4];
            float factor[4];
            scale_products(factor, scale[tile], kScales == 2 ? x_scale[ct] >> 16 * j : x_scale[ct]);
            mma_s8_16832_first(sum, a0, b[ct].x, b[ct].y);
            mma_s8_16832(sum, a1, b[ct].z, b[ct].w);
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[tile][ct][i] = fmaf(__int2float_rn(sum[i]), factor[i], acc[tile][ct][i]);
          }
        }
        const int next = j + kAhead;  // the word that these registers serve next
        if (next < W)
          read_x(turn * KWarps * W + next, b, live);
        else
          read_x((turn + 1) * KWarps * W + next - W, b, first + turn + 1 < slabs ? live : 0);
        if (j + 1 == W)
          read_x_scales((turn + 1) * KWarps * W, first + turn + 1 < slabs ? live : 0);
        else if (kScales == 1)
          read_x_scales(turn * KWarps * W + j + 1, live);
      }
    }
    from_codes += kTurn * kCodeBytes;
    from_scales += kTurn * (kSlab / 128);
    from_x += kTurn * KWarps * W * kColumns * 64;
    from_x_scales += kTurn * KWarps * W * kColumns;
  }

  // Odd K warps publish, even ones fold their neighbour, warp 0 of each row of tiles adds 2, 4, 6.
  const auto slot = [&](int of_warp, int tile, int ct) {
    return reinterpret_cast<float4*>(shared) + ((of_warp * TPW + tile) * CT + ct) * 32 + lane;
  };
  const auto publish = [&] {
#pragma unroll
    for (int tile = 0; tile < TPW; ++tile)
#pragma unroll
      for (int ct = 0; ct < CT; ++ct)
        *slot(warp, tile, ct) = {acc[tile][ct][0], acc[tile][ct][1], acc[tile][ct][2], acc[tile][ct][3]};
  };
  const auto fold = [&](int of_warp) {
#pragma unroll
    for (int tile = 0; tile < TPW; ++tile)
#pragma unroll
      for (int ct = 0; ct < CT; ++ct) {
        const float4 other = *slot(of_warp, tile, ct);
        acc[tile][ct][0] += other.x;
        acc[tile][ct][1] += other.y;
        acc[tile][ct][2] += other.z;
        acc[tile][ct][3] += other.w;
      }
  };
  cp_async_wait<0>();
  __syncthreads();
  if (k_split % 2 == 1) publish();
  __syncthreads();
  if (k_split % 2 == 0) {
    fold(warp + 1);
    if (k_split != 0) publish();
  }
  __syncthreads();
  if (k_split != 0) return;
#pragma unroll
  for (int other = 2; other < KWarps; other += 2) fold(warp + other);

  const Destination to = parent_b ? Destination{out_b0, out_b1, split_b, stride_b0, stride_b1}
                                  : Destination{out_a0, out_a1, split_a, stride_a0, stride_a1};
#pragma unroll
  for (int tile = 0; tile < TPW; ++tile)
#pragma unroll
    for (int ct = 0; ct < CT; ++ct)
      if (ct * 8 < live) store_tile(to, row + (first_tile + tile) * 16, ct * 8, live, add != 0, kCodeUnit * kScaleUnit, acc[tile][ct]);
}
