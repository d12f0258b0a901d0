// Q4 output and down projections added to the residual in place:
//
//   residual[t][n] <- bf16(residual[t][n] + sum_k w[n][k] * x[t][k]),   n = 5120, k = 6144 or 17408
//
// w is Q4 row-split (rowsplit.cuh): codes n * k / 2 bytes, scales n * k / 64 FP16. x is (columns, k) BF16, residual (columns, n)
// BF16; the addition is FP32 in every form. All shared memory is static.
//
// q4_linear_add_mma<Cfg>       tiled GEMM (gemm_tile.cuh): grid (n / BM, ceil(columns / BN)), block Cfg::kThreads.
// q4_linear_add_ksplit<Cfg>    K-split MMA, the small-T kernel at KWarps 8 and one stage (small_t_mma.cuh): columns <= XCols, grid
//   n / 16, block 256.
// q4_linear_add_sliced<Cfg>    sliced K (sliced.cuh) of the unified table: grid (n / R, ceil(columns / T)), block 32 W.
// q4_linear_add_small_t<C>     small-T MMA with direct loads (direct_mma.cuh), columns <= C = 8, 16, 32: grid n / 16, block 256.
// q4_linear_add_gemv           one column, one row a CTA, 8 warps share K (direct.cuh): grid n, block 256.
#include "direct.cuh"
#include "direct_mma.cuh"
#include "gemm_tile.cuh"
#include "sliced.cuh"
#include "small_t_mma.cuh"

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_linear_add_mma(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* residual, int k,
                      int columns) {
  __shared__ __align__(128) unsigned char shared[GemmShared<Cfg, Q4>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  gemm_tile<Cfg, Q4>(shared, RowSplit{codes, nullptr, scales}, ConsecutiveRows{row0}, k, x, columns,
                     blockIdx.y * Cfg::kColumns, AddResidual<false>{residual + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_linear_add_ksplit(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* residual,
                         int k, int columns) {
  static_assert(Cfg::kKWarps == 8 && Cfg::kStages == 1, "K-split is the small-T kernel with all warps along K, unpipelined");
  __shared__ __align__(128) unsigned char shared[SmallTShared<Cfg, Q4>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  small_t_mma<Cfg, Q4>(shared, RowSplit{codes, nullptr, scales}, ConsecutiveRows{row0}, k, x, columns,
                       AddResidual<false>{residual + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_linear_add_sliced(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* residual,
                         int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SlicedShared<Cfg, Q4>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  sliced<Cfg, Q4>(shared, RowSplit{codes, nullptr, scales}, ConsecutiveRows{row0}, k, x, columns, blockIdx.y * Cfg::kColumns,
                  AddResidual<false>{residual + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}

template <int C>
__global__ void __launch_bounds__(256)
    q4_linear_add_small_t(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* residual,
                          int k, int columns) {
  static_assert(C == 8 || C == 16 || C == 32, "small_t_c8, c16 and c32 are the schedules");
  __shared__ __align__(128) unsigned char shared[kDirectMmaBytes<C / 8>];
  const int row0 = blockIdx.x * 16;
  constexpr int kXAhead = C == 16 ? 1 : 2;
  direct_mma<Q4, C / 8, kXAhead>(reinterpret_cast<float*>(shared), rows_from<Q4>(RowSplit{codes, nullptr, scales}, row0, k / 64),
                                 k, x, columns, AddResidual<false>{residual + row0, static_cast<int>(gridDim.x) * 16});
}

__global__ void __launch_bounds__(256)
    q4_linear_add_gemv(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* residual, int k,
                       int) {
  __shared__ float shared[8];
  gemv_split<Q4, 1, 8>(shared, RowSplit{codes, nullptr, scales}, blockIdx.x, k, x,
                       AddElement{residual, static_cast<int>(gridDim.x)});
}
