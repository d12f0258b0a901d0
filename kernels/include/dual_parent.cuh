// Kernels of the two fused input projections: a Q4 and a Q5 parent over the same x (columns, k) BF16, split outputs.
//
// A parent (n, k) is row-split (rowsplit.cuh): codes n * k / 2 bytes, high bytes n * k / 8 (Q5; not read for Q4), scales n * k / 64
// FP16. Outputs are (columns, rows) BF16; a parent's rows below `split` go to `first`, the others to `second`, and every tile
// lies on one side. All shared memory is static.
//
// The source that includes this defines DUAL_PARENT(kernel), its own name of a kernel, and kOverlapped: whether the simt kernel
// may run as the programmatic dependent of split4 (the two share no output row).
//
// mixed<Cfg>                 both parents in one grid of tiled GEMMs (gemm_tile.cuh): grid
//   ((rows4 + rows5) / BM, ceil(columns / BN)), block Cfg::kThreads; row tiles of the Q4 parent come first.
// small_t<Cfg, Format>       one parent, small-T MMA (small_t_mma.cuh), columns <= XCols: grid n / Cfg::kRows, block 256; at
//   KWarps 8 and one stage it is the K-split kernel.
// sliced<Cfg, Format>        one parent, sliced K (sliced.cuh) of the unified table: grid n / R, block 32 W.
// simt<Format, C>            one parent, 8 rows a CTA, a warp a row, tiles of C columns (direct.cuh): grid (n / 8,
//   ceil(columns / C)), block 256.
// gemv<R, W>                 Q4, one column, R rows a CTA, W warps a row (direct.cuh): grid n / R, block 32 R W.
// gemv_staged                Q5, one column, 16 rows a CTA, a warp a row, x in shared memory, k = 5120: grid n / 16, block 512.
// split4<T, R, MinBlocks>    Q5, exactly T columns, R rows a CTA, four warps share every 1024-element slab: grid n / R, block 128.
#pragma once
#include "dependent.cuh"
#include "direct.cuh"
#include "gemm_tile.cuh"
#include "sliced.cuh"
#include "small_t_mma.cuh"
#include "split_output.cuh"

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    DUAL_PARENT(mixed)(const unsigned char* codes4, const __half* scales4, const unsigned char* codes5,
                       const unsigned char* high5, const __half* scales5, const __nv_bfloat16* x, __nv_bfloat16* first4,
                       int first4_ld, int split4, __nv_bfloat16* second4, int second4_ld, __nv_bfloat16* first5, int first5_ld,
                       int split5, __nv_bfloat16* second5, int second5_ld, int rows4, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[GemmShared<Cfg, Q5>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows, column0 = blockIdx.y * Cfg::kColumns;
  if (row0 < rows4)
    gemm_tile<Cfg, Q4>(shared, RowSplit{codes4, nullptr, scales4}, ConsecutiveRows{row0}, k, x, columns, column0,
                       SplitOutput{first4, first4_ld, split4, second4, second4_ld}.at(row0));
  else
    gemm_tile<Cfg, Q5>(shared, RowSplit{codes5, high5, scales5}, ConsecutiveRows{row0 - rows4}, k, x, columns, column0,
                       SplitOutput{first5, first5_ld, split5, second5, second5_ld}.at(row0 - rows4));
}

template <typename Cfg, typename Format>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    DUAL_PARENT(small_t)(const unsigned char* codes, const unsigned char* high, const __half* scales,
                         const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                         int second_ld, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SmallTShared<Cfg, Format>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  small_t_mma<Cfg, Format>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns,
                           SplitOutput{first, first_ld, split, second, second_ld}.at(row0));
}

template <typename Cfg, typename Format>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    DUAL_PARENT(sliced)(const unsigned char* codes, const unsigned char* high, const __half* scales,
                        const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                        int second_ld, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SlicedShared<Cfg, Format>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  sliced<Cfg, Format>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns,
                      blockIdx.y * Cfg::kColumns, SplitOutput{first, first_ld, split, second, second_ld}.at(row0));
}

template <typename Format, int C>
__global__ void __launch_bounds__(256)
    DUAL_PARENT(simt)(const unsigned char* codes, const unsigned char* high, const __half* scales,
                      const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                      int second_ld, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[ring_bytes<Format, 8, 2>()];
  simt<Format, 8, C, 2>(shared, RowSplit{codes, high, scales}, blockIdx.x * 8, k, x, columns, blockIdx.y * C,
                        StoreSplitElement{first, second, split, first_ld, second_ld});
  if constexpr (kOverlapped) wait_for_kernel_before();
}

template <int R, int W>
__global__ void __launch_bounds__(32 * R * W)
    DUAL_PARENT(gemv)(const unsigned char* codes, const unsigned char* high, const __half* scales,
                      const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                      int second_ld, int k, int) {
  __shared__ float shared[R * W];
  gemv_split<Q4, R, W>(shared, RowSplit{codes, high, scales}, blockIdx.x * R, k, x,
                       StoreSplitElement{first, second, split, first_ld, second_ld});
}

constexpr int kStagedK = 5120;

__global__ void __launch_bounds__(512)
    DUAL_PARENT(gemv_staged)(const unsigned char* codes, const unsigned char* high, const __half* scales,
                             const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                             int second_ld, int, int) {
  __shared__ __align__(128) unsigned char shared[ring_bytes<Q5, 16, 2>() + kStagedK * 2];
  gemv_staged_x<Q5, 16, 2>(shared, RowSplit{codes, high, scales}, blockIdx.x * 16, kStagedK, x,
                           StoreSplitElement{first, second, split, first_ld, second_ld});
}

template <int T, int R, int MinBlocks>
__global__ void __launch_bounds__(128, MinBlocks)
    DUAL_PARENT(split4)(const unsigned char* codes, const unsigned char* high, const __half* scales,
                        const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                        int second_ld, int k, int) {
  __shared__ float shared[R * 4 * T];
  if constexpr (kOverlapped) allow_dependents();
  split_slabs<Q5, T, 4, R>(shared, RowSplit{codes, high, scales}, blockIdx.x * R, k, x,
                           StoreSplitElement{first, second, split, first_ld, second_ld});
}
