// Ternary projection of many columns: out[n, t] (+)= sum over 128-groups G of
//   (weight_scale[n, G] * x_scale[G, t]) * sum over k of code[n, k] * x_code[t, k]
// with int32 inner sums, FP32 outer sums and one rounding to BF16. One launch a parent.
//
// t2_a8_tile: quantise activations. Grid T rounded up to 64, block 256: a CTA a column, a warp a 128-group.
//   x        BF16 [T][K]
//   codes    int8 [Tpad][K]; in each 64-group k is byte (k mod 4) * 16 + k / 4, so that a 16-byte row of ldmatrix is one
//            fragment register of the lanes of one column
//   scales   FP16 [K / 128][Tpad]; padded columns get zero codes and zero scales
//   scale = f16(amax / 127), code = clamp(rint(x * (1 / float(scale))), -127, 127); a zero scale gives zero codes
//
// t2_i8_route: project. Grid (Tpad / 64, N / 128), token tiles fastest; block 128 = 2 x 2 warps of 64 x 32; static shared
// memory 30,976 bytes: two stages of 128 rows x 32 code bytes, 64 columns x (128 + 16 pad) activation bytes and 64
// activation scales, and two buffers of 128 rows x 8 weight scales, one filled every eighth step.
//   codes, scales, out_*, split, stride_*, add: as in t2_i8_small.cu, for one parent
//   needs N mod 128 = 0, K mod 1024 = 0
// The only schedule of its kind, "tile"; it differs from the small-T kernel in 128-element inner sums, in keeping both
// operands in shared memory and in not splitting K.
#include "cp_async.cuh"
#include "mma.cuh"
#include "reduce.cuh"
#include "ternary.cuh"

extern "C" __global__ void __launch_bounds__(256)
    t2_a8_tile(const __nv_bfloat16* x, signed char* codes, __half* scales, int k, int live, int padded) {
  const int lane = threadIdx.x % 32, t = blockIdx.x;
  for (int group = threadIdx.x / 32; group < k / 128; group += 8) {
    const long long start = static_cast<long long>(t) * k + group * 128;
    uint2 four = {0, 0};
    if (t < live) four = reinterpret_cast<const uint2*>(x + start)[lane];
    const float v[4] = {bf16_low(four.x), bf16_high(four.x), bf16_low(four.y), bf16_high(four.y)};
    const float amax = warp_max(fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3]))));
    const __half scale = __float2half_rn(amax / 127.0f);
    const float represented = __half2float(scale);
    const float inverse = represented > 0.0f ? 1.0f / represented : 0.0f;
    unsigned q[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) q[i] = max(-127, min(127, __float2int_rn(v[i] * inverse))) & 0xFF;
    // Four lanes transpose their 4 x 4 bytes: lane q mod 4 gets element q of each.
    unsigned word = q[0] | q[1] << 8 | q[2] << 16 | q[3] << 24;
    const unsigned beside = __shfl_xor_sync(0xFFFFFFFFu, word, 1);
    word = lane & 1 ? byte_permute(word, beside, 0x3715u) : byte_permute(word, beside, 0x6240u);
    const unsigned across = __shfl_xor_sync(0xFFFFFFFFu, word, 2);
    word = lane & 2 ? byte_permute(word, across, 0x3276u) : byte_permute(word, across, 0x5410u);
    *reinterpret_cast<unsigned*>(codes + start + lane / 16 * 64 + lane % 4 * 16 + lane % 16 / 4 * 4) = word;
    if (lane == 0) scales[static_cast<long long>(group) * padded + t] = scale;
  }
}

extern "C" __global__ void __launch_bounds__(128, 3)
    t2_i8_route(const unsigned char* codes, const __half* scales, const signed char* x_codes, const __half* x_scales,
                __nv_bfloat16* out_0, __nv_bfloat16* out_1, int k, int split, int stride_0, int stride_1, int live, int padded,
                int add) {
  constexpr int kRows = 128, kColumns = 64, kXStride = 128 + 16;
  struct Stage {
    unsigned char weights[kRows * 32];
    unsigned char x[kColumns * kXStride];
    __half column_scales[kColumns];
  };
  __shared__ __align__(16) Stage stages[2];
  __shared__ __align__(16) __half weight_scales[2][kRows * 8];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, l = lane % 4;
  const int row = blockIdx.y * kRows, column = blockIdx.x * kColumns;
  const int groups = k / 128;
  const int warp_row = warp / 2 * 64, warp_column = warp % 2 * 32;
  codes += static_cast<long long>(row) * groups * 32;
  scales += static_cast<long long>(row) * groups;
  x_codes += static_cast<long long>(column) * k;

  // The 16-byte halves of a row trade places in every other four rows, so that eight rows read without bank conflicts.
  const auto half_of = [](int r, int half) { return (half ^ (r >> 2 & 1)) * 16; };
  const unsigned code_offset = threadIdx.x / 2 * groups * 32 + threadIdx.x % 2 * 16;
  const unsigned x_offset = threadIdx.x / 8 * k + threadIdx.x % 8 * 16;
  const auto fetch = [&](int step) {
    Stage& stage = stages[step % 2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = i * 64 + threadIdx.x / 2;
      cp_async_cg(stage.weights + r * 32 + half_of(r, threadIdx.x % 2), codes + (code_offset + (i * 64 * groups + step) * 32));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int c = i * 16 + threadIdx.x / 8;
      cp_async_cg(stage.x + c * kXStride + threadIdx.x % 8 * 16, x_codes + (x_offset + i * 16 * k + step * 128));
    }
    if (threadIdx.x < kColumns / 8)
      cp_async_cg(stage.column_scales + threadIdx.x * 8, x_scales + (step * padded + column + threadIdx.x * 8));
    if (step % 8 == 0)
      cp_async_cg(weight_scales[step / 8 % 2] + threadIdx.x * 8, scales + (threadIdx.x * groups + step));
  };
  const unsigned lane_word = (warp_row + g) * 32 + half_of(g, 0) + 4 * l;
  float acc[4][4][4] = {};
  fetch(0);
  cp_async_commit();
#pragma unroll 1
  for (unsigned step = 0; step < static_cast<unsigned>(groups); ++step) {
    cp_async_wait<0>();
    __syncthreads();
    if (step + 1 < groups) fetch(step + 1);
    cp_async_commit();
    const Stage& stage = stages[step % 2];
    unsigned b[4][2][4];
#pragma unroll
    for (int nt = 0; nt < 4; ++nt)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        ldmatrix_x4(b[nt][half], stage.x + (warp_column + nt * 8 + lane % 8) * kXStride + half * 64 + lane / 8 * 16);
#pragma unroll
    for (int mt = 0; mt < 4; ++mt) {
      const int r = warp_row + mt * 16 + g;
      int sum[4][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned top[4], bottom[4];
        const unsigned char* const at = stage.weights + (lane_word ^ half * 16) + mt * 16 * 32;
        ternary_fragments(*reinterpret_cast<const unsigned*>(at), top);
        ternary_fragments(*reinterpret_cast<const unsigned*>(at + 8 * 32), bottom);
        const unsigned a0[4] = {top[0], bottom[0], top[1], bottom[1]};
        const unsigned a1[4] = {top[2], bottom[2], top[3], bottom[3]};
#pragma unroll
        for (int nt = 0; nt < 4; ++nt) {
          if (half == 0)
            mma_s8_16832_first(sum[nt], a0, b[nt][half][0], b[nt][half][1]);
          else
            mma_s8_16832(sum[nt], a0, b[nt][half][0], b[nt][half][1]);
        }
#pragma unroll
        for (int nt = 0; nt < 4; ++nt) mma_s8_16832(sum[nt], a1, b[nt][half][2], b[nt][half][3]);
      }
      const __half* const row_scales = weight_scales[step / 8 % 2] + step % 8 + r * 8;
      const float scale_top = __half2float(row_scales[0]), scale_bottom = __half2float(row_scales[64]);
#pragma unroll
      for (int nt = 0; nt < 4; ++nt) {
        float(&c)[4] = acc[mt][nt];
        const float2 x_scale = __half22float2(reinterpret_cast<const __half2*>(stage.column_scales + warp_column + nt * 8)[l]);
        c[0] = scaled_sum(sum[nt][0], scale_top, x_scale.x, c[0]);
        c[1] = scaled_sum(sum[nt][1], scale_top, x_scale.y, c[1]);
        c[2] = scaled_sum(sum[nt][2], scale_bottom, x_scale.x, c[2]);
        c[3] = scaled_sum(sum[nt][3], scale_bottom, x_scale.y, c[3]);
      }
    }
  }

  const Destination to = {out_0, out_1, split, stride_0, stride_1};
#pragma unroll
  for (int mt = 0; mt < 4; ++mt)
#pragma unroll
    for (int nt = 0; nt < 4; ++nt)
      store_tile(to, row + warp_row + mt * 16, column + warp_column + nt * 8, live, add != 0, kCodeUnit, acc[mt][nt]);
}
