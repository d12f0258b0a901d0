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
// q5_linear_add_split2<T, MinBlocks>     exactly T columns, one row a CTA, two warps share every 1024-element slab (direct.cuh).
//   grid n, block 64; T = 1 .. 10; MinBlocks 16, 12 or 8; the residual is added in FP32.
#include "direct.cuh"
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

template <int T, int MinBlocks>
__global__ void __launch_bounds__(64, MinBlocks)
    q5_linear_add_split2(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                         __nv_bfloat16* residual, int k, int) {
  static_assert(T >= 1 && T <= 10, "split2_exact is compiled for 1 to 10 columns");
  __shared__ float shared[2 * T];
  split_slabs<Q5, T, 2, 1>(shared, RowSplit{codes, high, scales}, blockIdx.x, k, x,
                           AddElement{residual, static_cast<int>(gridDim.x)});
}
