// Q6 vocabulary head: logits[t][n] = bf16(sum_k w[n][k] * x[t][k]), n = 248320, k = 5120.
//
// w is Q6 row-split (rowsplit.cuh): codes n * k / 2 bytes, high n * k / 4 bytes, scales n * k / 64 FP16. x is (columns, k) BF16,
// logits (columns, n) BF16.
//
// q6_head_simt<C, Stages>   one warp a row, 8 rows a CTA (direct.cuh): grid (n / 8, ceil(columns / C)), block 256, static shared
//   memory 8 x Stages x 800 bytes. Schedule gemv: Stages 3, C 1 or 2, exactly that many columns. Compiled route simt_r8tC:
//   Stages 2, C 4 to 7, at most C columns.
// q6_head_small_t<CT>       small-T MMA with direct loads (direct_mma.cuh), columns <= 8 CT, CT 1, 2, 4: grid n / 16, block 256.
// q6_head_sliced<Cfg>       sliced K (sliced.cuh): grid (n / R, ceil(columns / T)), block 32 W.
// q6_head_mma<Cfg>          tiled GEMM (gemm_tile.cuh): grid (n / BM, ceil(columns / BN)), block Cfg::kThreads; dynamic shared
//   memory, because the wide tiles of 128 K elements need more than 48 KiB.
#include "direct.cuh"
#include "direct_mma.cuh"
#include "gemm_tile.cuh"
#include "sliced.cuh"

template <int C, int Stages>
__global__ void __launch_bounds__(256)
    q6_head_simt(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                 __nv_bfloat16* logits, int k, int columns) {
  static_assert(C >= 1 && C <= 8, "a warp holds the sums of one to eight columns");
  __shared__ __align__(16) unsigned char shared[ring_bytes<Q6, 8, Stages>()];
  simt<Q6, 8, C, Stages>(shared, RowSplit{codes, high, scales}, blockIdx.x * 8, k, x, columns, blockIdx.y * C,
                         StoreElement{logits, static_cast<int>(gridDim.x) * 8});
}

constexpr int kHeadK = 5120;  // a constant turns the second rows' addresses into offsets of the loads

template <int CT>
__global__ void __launch_bounds__(256)
    q6_head_small_t(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                    __nv_bfloat16* logits, int, int columns) {
  __shared__ __align__(16) float shared[kDirectMmaBytes<CT> / 4];
  const int row0 = blockIdx.x * 16;
  constexpr int kXAhead = CT == 1 ? 2 : 1;
  direct_mma<Q6, CT, kXAhead>(shared, rows_from<Q6>(RowSplit{codes, high, scales}, row0, kHeadK / 64), kHeadK, x, columns,
                              Store{logits + row0, static_cast<int>(gridDim.x) * 16});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q6_head_sliced(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                   __nv_bfloat16* logits, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SlicedShared<Cfg, Q6>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  sliced<Cfg, Q6>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns, blockIdx.y * Cfg::kColumns,
                  Store{logits + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q6_head_mma(const unsigned char* codes, const unsigned char* high, const __half* scales, const __nv_bfloat16* x,
                __nv_bfloat16* logits, int k, int columns) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int row0 = blockIdx.x * Cfg::kRows;
  gemm_tile<Cfg, Q6>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns, blockIdx.y * Cfg::kColumns,
                     Store{logits + row0, static_cast<int>(gridDim.x) * Cfg::kRows});
}
