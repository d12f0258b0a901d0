// Ternary projection of at most 32 columns: out[n, t] (+)= sum over 64-groups g of
//   (weight_scale[n, g / 2] * x_scale[g, t]) * sum over k of code[n, k] * x_code[t, k]
// with int32 inner sums, FP32 outer sums and one rounding to BF16. Two parents (a pair) share one grid: first the CTAs of
// parent a, then those of parent b.
//
// t2_a8_small: quantise activations. Grid (ceil(K / 64 / 8), T rounded up to 8), block 256: a warp a (group, token).
//   x        BF16 [T][K]
//   codes    int8 [K / 64][192][64], so that the fragments of eight columns are 512 consecutive bytes; in each block of 16, k is
//            byte (k mod 4) * 4 + k / 4
//   scales   FP16 [K / 64][192]; columns from T up to the padding get scale 0 and no codes
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
//   St       2 or 3   stages of the weight ring; St - 1 slabs are in flight
//   MB       3 or 4   CTAs an SM that the compiler must leave room for
//   W        1 or 2   code words a lane and slab
// rows = 16 (8 / KWarps) TPW, K slab = 64 W KWarps. Warp w takes k split w mod KWarps of each slab. Shared memory: the ring,
// rows x (slab / 4 + 16 pad + slab / 64 scale bytes) a stage, or the FP32 partial tiles of the reduction if larger.
//
// Activation fragments are read from global memory, before the slab's barrier, so that their latency overlaps the wait.
// Tried on an H200: hints to the L2 for the CTA's rows, or for those of a later CTA, and L2 sizes on the copies; none helps all schedules.
#include "cp_async.cuh"
#include "mma.cuh"
#include "reduce.cuh"
#include "ternary.cuh"

constexpr int kColumns = 192;  // capacity of the quantised activations

extern "C" __global__ void __launch_bounds__(256)
    t2_a8_small(const __nv_bfloat16* x, signed char* codes, __half* scales, int k, int live) {
  const int lane = threadIdx.x % 32;
  const int group = blockIdx.x * 8 + threadIdx.x / 32, t = blockIdx.y;
  if (group >= k / 64) return;
  if (t >= live) {
    if (lane == 0) scales[group * kColumns + t] = __float2half_rn(0.0f);
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
  if (lane == 0) scales[group * kColumns + t] = __float2half_rn(amax / 127.0f);
}

// CTAs that the compiler leaves room for: one accumulator tile a warp needs so few registers that two more than the schedule
// asks fit, one more on sm_120, where two would spill.
template <int MB, int Tiles>
constexpr int room() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  return Tiles == 1 ? MB + 1 : MB;
#else
  return Tiles == 1 ? MB + 2 : MB;
#endif
}

template <int KWarps, int TPW, int CT, int St, int MB, int W>
__global__ void __launch_bounds__(256, room<MB, CT * TPW>())
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
  // Words whose activations are read before the barrier; with four accumulator tiles the registers hold one.
  constexpr int kAhead = CT * TPW >= 4 ? 1 : W;
  constexpr int kTurn = CT * TPW >= 4 ? 1 : St;  // slabs a loop iteration: a whole turn makes all offsets constants
  __shared__ __align__(16) unsigned char shared[St * kStage > kReduce ? St * kStage : kReduce];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, l = lane % 4;
  const int k_split = warp % KWarps, first_tile = warp / KWarps * TPW;
  const int groups = k / 128, slabs = k / kSlab;

  int row = blockIdx.x * kRows;
  const bool parent_b = row >= rows_a;
  row -= parent_b ? rows_a : 0;
  const unsigned char* const codes = (parent_b ? codes_b : codes_a) + static_cast<long long>(row) * groups * 32;
  const __half* const scales = (parent_b ? scales_b : scales_a) + static_cast<long long>(row) * groups;

  // This thread's pieces of a slab; the pointers move on with every ring turn.
  constexpr int kChunks = kCodeBytes / 16, kPieces = (kRows * kChunks + 255) / 256;
  const bool copies_codes = kRows * kChunks % 256 == 0 || threadIdx.x < kRows * kChunks;
  const bool copies_scales = threadIdx.x < kRows;
  const unsigned char* from_codes = codes + (threadIdx.x / kChunks * groups * 32 + threadIdx.x % kChunks * 16);
  const __half* from_scales = scales + threadIdx.x * groups;
  const unsigned ring = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned to_codes = ring + threadIdx.x / kChunks * kCodeStride + threadIdx.x % kChunks * 16;
  const unsigned to_scales = ring + kRows * kCodeStride + threadIdx.x * kScaleBytes;
  // `slab` counts from the pointers, `stage` is where it goes.
  const auto fetch = [&](int slab, int stage) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      cp_async_cg_if(to_codes + stage * kStage + i * (256 / kChunks) * kCodeStride,
                     from_codes + (slab * kCodeBytes + i * (256 / kChunks) * 32 * groups), copies_codes);
    cp_async_ca_if<kScaleBytes>(to_scales + stage * kStage, from_scales + slab * (kSlab / 128), copies_scales);
  };

#pragma unroll
  for (int slab = 0; slab < St - 1; ++slab) {
    if (slab < slabs) fetch(slab, slab);
    cp_async_commit();
  }

  float acc[TPW][CT][4] = {};
  uint4 x_ahead[kAhead][CT] = {};  // stays zero in the lanes of columns that do not exist
  __half2 x_scale_ahead[kAhead][CT];
  const signed char* from_x = x_codes + (k_split * W * kColumns + g) * 64 + 16 * l;
  const __half* from_x_scales = x_scales + k_split * W * kColumns + 2 * l;
  const auto read_x = [&](int group, uint4(&b)[CT], __half2(&x_scale)[CT]) {
#pragma unroll
    for (int ct = 0; ct < CT; ++ct) {
      load_16_if(b[ct], from_x + (group * kColumns + 8 * ct) * 64, ct * 8 + g < live);
      x_scale[ct] = *reinterpret_cast<const __half2*>(from_x_scales + group * kColumns + 8 * ct);
    }
  };
  const unsigned char* const lane_codes = shared + (first_tile * 16 + g) * kCodeStride + k_split * W * 16 + 4 * l;
  const unsigned char* const lane_scales =
      shared + kRows * kCodeStride + (first_tile * 16 + g) * kScaleBytes + k_split * W / 2 * 2;
#pragma unroll 1
  for (int first = 0; first < slabs; first += kTurn) {
#pragma unroll
    for (int turn = 0; turn < kTurn; ++turn) {
      if (kTurn > 1 && first + turn >= slabs) break;
      const int stage = kTurn > 1 ? turn : first % St;
#pragma unroll
      for (int j = 0; j < kAhead; ++j) read_x(turn * KWarps * W + j, x_ahead[j], x_scale_ahead[j]);
      cp_async_wait<St - 2>();
      __syncthreads();
      if (first + turn + St - 1 < slabs) fetch(turn + St - 1, (stage + St - 1) % St);
      cp_async_commit();
#pragma unroll(kAhead)
      for (int j = 0; j < W; ++j) {
        uint4(&b)[CT] = x_ahead[j % kAhead];
        __half2(&x_scale)[CT] = x_scale_ahead[j % kAhead];
        if (j >= kAhead) read_x(turn * KWarps * W + j, b, x_scale);
#pragma unroll
        for (int tile = 0; tile < TPW; ++tile) {
          const unsigned char* const at = lane_codes + stage * kStage + tile * 16 * kCodeStride + j * 16;
          const unsigned char* const scale_at = lane_scales + stage * kStage + tile * 16 * kScaleBytes;
          unsigned top[4], bottom[4];
          ternary_fragments(*reinterpret_cast<const unsigned*>(at), top);
          ternary_fragments(*reinterpret_cast<const unsigned*>(at + 8 * kCodeStride), bottom);
          const float scale_top = __half2float(*reinterpret_cast<const __half*>(scale_at));
          const float scale_bottom = __half2float(*reinterpret_cast<const __half*>(scale_at + 8 * kScaleBytes));
          const unsigned a0[4] = {top[0], bottom[0], top[1], bottom[1]};
          const unsigned a1[4] = {top[2], bottom[2], top[3], bottom[3]};
#pragma unroll
          for (int ct = 0; ct < CT; ++ct) {
            int sum[4];
            mma_s8_16832_first(sum, a0, b[ct].x, b[ct].y);
            mma_s8_16832(sum, a1, b[ct].z, b[ct].w);
            float(&c)[4] = acc[tile][ct];
            const float2 scale = __half22float2(x_scale[ct]);
            c[0] = scaled_sum(sum[0], scale_top, scale.x, c[0]);
            c[1] = scaled_sum(sum[1], scale_top, scale.y, c[1]);
            c[2] = scaled_sum(sum[2], scale_bottom, scale.x, c[2]);
            c[3] = scaled_sum(sum[3], scale_bottom, scale.y, c[3]);
          }
        }
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
      if (ct * 8 < live) store_tile(to, row + (first_tile + tile) * 16, ct * 8, live, add != 0, acc[tile][ct]);
}
