// Small-T MMA with direct loads (engine-kernels 5.4), Q4 and Q6: 16 rows a CTA of 256 threads, up to 8 CT columns.
//
//   sum[t][r] = sum_groups scale(r, g) * (sum_k code(r, k) * x[t][k]),  exact codes in BF16, FP32 products and sums
//
// The warps stride over pairs of groups, warp w takes pairs w, w + 8, ..., with the codes of the next pair on their way. A
// multiprocessor looks up about one 128-byte line a clock, and a request touches the lines of eight rows whatever it reads of each:
// so a lane reads 16 bytes of codes, 8 of high bits and two scales at once. That leaves lanes 0 and 1 of four with the codes of the
// pair's first group, 2 and 3 with the second's; lanes two apart exchange halves, after which lane l owns
// k = 32 (l mod 2) + 16 (l / 2) and the 15 after it of both groups. (With one group a request the loads alone took 281 of 337
// microseconds for one column of the Q6 head on an H200; the whole takes 274 like this.)
//
// XAhead groups of a pair, 0 to 2, have their activations read before the exchange. The trip count depends on the warp, so the
// compiler ends a basic block at the exchange and cannot put the loads above it right before their use, as it otherwise does.
// K is a multiple of 128 and at least 1024. `shared` has kDirectMmaBytes<CT> bytes; `w` begins at the CTA's first row and the
// epilogue's output too.
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
#include "rowsplit.cuh"
#include "tile_store.cuh"

// Sixteen consecutive codes as BF16 pairs (0,1) (2,3) ... (14,15); `high` holds their high bits from bit 0 up.
template <typename Format>
__device__ __forceinline__ void decode16_pairs(unsigned low0, unsigned low1, unsigned high, unsigned (&pairs)[8]) {
  if constexpr (Format::kBits == 6) {
    // Codes i, i + 4, i + 8, i + 12 have their high bits at one place of the four bytes of `high`, and their low bits in every
    // other byte of the two words: five instructions a word of codes fewer than spreading the bits of each word.
    const unsigned base = in_register(0x43434343u), sign = in_register(0x20202020u);
    const unsigned even = byte_permute(low0, low1, 0x6420u), odd = byte_permute(low0, low1, 0x7531u);
    const auto biased = [&](unsigned low, unsigned up) { return (low & 0x0F0F0F0Fu) | ((up & 0x30303030u) ^ sign); };
    const unsigned every_fourth[4] = {biased(even, high << 4), biased(even >> 4, high << 2), biased(odd, high),
                                      biased(odd >> 4, high >> 2)};
#pragma unroll
    for (int i = 0; i < 2; ++i) {  // codes 0 1 4 5 and 8 9 12 13, then 2 3 6 7 and 10 11 14 15
      const unsigned first = byte_permute(every_fourth[2 * i], every_fourth[2 * i + 1], 0x5140u);
      const unsigned second = byte_permute(every_fourth[2 * i], every_fourth[2 * i + 1], 0x7362u);
      pairs[i] = unbias_pair<Format>(byte_permute(first, base, 0x4140u));
      pairs[i + 2] = unbias_pair<Format>(byte_permute(first, base, 0x4342u));
      pairs[i + 4] = unbias_pair<Format>(byte_permute(second, base, 0x4140u));
      pairs[i + 6] = unbias_pair<Format>(byte_permute(second, base, 0x4342u));
    }
  } else {
    unsigned half[4];
#pragma unroll
    for (int word = 0; word < 2; ++word) {
      decode8_pairs<Format>(word ? low1 : low0, high >> word * Format::kHighBytes, half);
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[word * 4 + i] = half[i];
    }
  }
}

template <int CT>
constexpr int kDirectMmaBytes = 8 * tile_bytes(16, 8 * CT);

template <typename Format, int CT, int XAhead, typename Epilogue>
__device__ __forceinline__ void direct_mma(float* shared, RowSplit w, int k, const __nv_bfloat16* x, int columns,
                                           const Epilogue& epilogue) {
  static_assert(CT == 1 || CT == 2 || CT == 4, "c8, c16 and c32 are 1, 2 and 4 column tiles");
  static_assert(Format::kHighBytes == 0 || Format::kHighBytes == 16, "a lane's high bits are none or 8 bytes");
  static_assert(XAhead >= 0 && XAhead <= 2, "a pair has two groups");
  constexpr int kHalves = 2;
  struct Rows {  // codes of rows g and g + 8 in two groups
    uint4 low[kHalves];
    uint2 high[kHalves];
    __half2 scale[kHalves];
  };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, l = lane % 4;
  const int groups = k / 64, pairs = groups / 2;
  unsigned at = (g * groups + 2 * warp) * 32 + l * 16;  // of the codes; in the other planes a fixed part of it
  const auto read_rows = [&] {
    Rows rows;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      rows.low[half] = load_once_16(w.codes + at + half * 8 * groups * 32);
      rows.high[half] = {0, 0};
      if constexpr (Format::kHighBytes == 16) rows.high[half] = load_once_8(w.high + at / 2 + half * 8 * groups * 16);
      rows.scale[half] = __ldg(reinterpret_cast<const __half2*>(w.scales + at / 64 * 2 + half * 8 * groups));
    }
    at += 16 * 32;
    return rows;
  };
  unsigned from[CT];  // columns past the last one repeat it; their sums are not stored
#pragma unroll
  for (int ct = 0; ct < CT; ++ct) from[ct] = min(ct * 8 + g, columns - 1) * k + warp * 128 + l % 2 * 32 + l / 2 * 16;
  const auto exchange = [&](unsigned& first, unsigned& second) {
    const unsigned theirs = __shfl_xor_sync(0xFFFFFFFFu, l < 2 ? second : first, 2);
    (l < 2 ? second : first) = theirs;
  };

  float sums[CT][4] = {};
  Rows next = read_rows();
#pragma unroll 1
  for (int pair = warp; pair < pairs; pair += 8) {
    Rows rows = next;
    uint4 x0[2][CT], x1[2][CT];
    const auto read_x = [&](int group) {
#pragma unroll
      for (int ct = 0; ct < CT; ++ct) {
        const uint4* const values = reinterpret_cast<const uint4*>(x + (from[ct] + group * 64));
        x0[group][ct] = __ldg(values);
        x1[group][ct] = __ldg(values + 1);
      }
    };
#pragma unroll
    for (int group = 0; group < XAhead; ++group) read_x(group);
    if (pair + 8 < pairs) next = read_rows();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      exchange(rows.low[half].x, rows.low[half].z);
      exchange(rows.low[half].y, rows.low[half].w);
      if constexpr (Format::kHighBytes == 16) exchange(rows.high[half].x, rows.high[half].y);
    }
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      if (group >= XAhead) read_x(group);
      unsigned a[4][4];  // by product, then fragment word
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const uint4& low = rows.low[half];
        unsigned codes_of[8];
        decode16_pairs<Format>(group ? low.z : low.x, group ? low.w : low.y, group ? rows.high[half].y : rows.high[half].x,
                               codes_of);
#pragma unroll
        for (int i = 0; i < 8; ++i) a[i / 2][half + i % 2 * 2] = codes_of[i];
      }
      float scale[2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        scale[half] = group ? __high2float(rows.scale[half]) : __low2float(rows.scale[half]);
#pragma unroll
      for (int ct = 0; ct < CT; ++ct) {
        float products[4] = {};
        mma_bf16_16816(products, a[0], x0[group][ct].x, x0[group][ct].y);
        mma_bf16_16816(products, a[1], x0[group][ct].z, x0[group][ct].w);
        mma_bf16_16816(products, a[2], x1[group][ct].x, x1[group][ct].y);
        mma_bf16_16816(products, a[3], x1[group][ct].z, x1[group][ct].w);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[ct][i] = fmaf(products[i], scale[i / 2], sums[ct][i]);
      }
    }
#pragma unroll
    for (int ct = 0; ct < CT; ++ct) from[ct] += 8 * 128;
  }

  constexpr int kPitch = 16 + kTilePad, kPartial = kPitch * 8 * CT;
#pragma unroll
  for (int ct = 0; ct < CT; ++ct)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      shared[warp * kPartial + (ct * 8 + 2 * l + i % 2) * kPitch + g + i / 2 * 8] = sums[ct][i];
  __syncthreads();
  for (int i = threadIdx.x; i < kPartial; i += 256) {
    float total = shared[i];
#pragma unroll
    for (int from_warp = 1; from_warp < 8; ++from_warp) total += shared[from_warp * kPartial + i];
    shared[i] = total;
  }
  __syncthreads();
  store_tile<16, 256>(shared, columns, 0, epilogue);
}
