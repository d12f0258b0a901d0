// Q5 output and down projections added to the residual in place:
//
//   residual[t][n] <- residual[t][n] + sum_k w[n][k] * x[t][k],   n = 5120, k = 6144 or 17408
//
// w is Q5 row-split (rowsplit.cuh): `codes` n * k / 2 bytes, `high` n * k / 8 bytes, `scales` n * k / 64 FP16. x is (columns, k)
// BF16, residual (columns, n) BF16. All shared memory is static.
//
// q5_linear_add_mma<Cfg, Collective>     tiled GEMM (gemm_tile.cuh), BM = 32 or 64.
//   grid (n / BM, ceil(columns / BN)), block Cfg::kThreads. Collective: the sum is rounded to BF16 before the addition, as the
//   mma_r64_* schedules do; without it, as the unified tiles do, the residual is added in FP32.
// q5_linear_add_small_t<Cfg>             small-T MMA (small_t_mma.cuh), columns <= XCols.
//   grid n / Cfg::kRows, block 256; the residual is added in FP32.
// q5_linear_add_sliced<Cfg>              sliced K (sliced.cuh) of the unified table.
//   grid (n / R, ceil(columns / T)), block 32 W; the residual is added in FP32.
#include "gemm_tile.cuh"
#include "sliced.cuh"
#include "small_t_mma.cuh"

template <typename Cfg, bool Collective>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q5_linear_add_mma(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                      __nv_bfloat16* residual, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[GemmShared<Cfg, Q5>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  gemm_tile<Cfg, Q5>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns, blockIdx.y * Cfg::kColumns,
                     AddResidual<Collective>{residual + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q5_linear_add_small_t(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                          __nv_bfloat16* residual, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SmallTShared<Cfg, Q5>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  small_t_mma<Cfg, Q5>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns,
                       AddResidual<false>{residual + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q5_linear_add_sliced(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                         __nv_bfloat16* residual, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SlicedShared<Cfg, Q5>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  sliced<Cfg, Q5>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns, blockIdx.y * Cfg::kColumns,
                  AddResidual<false>{residual + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}
