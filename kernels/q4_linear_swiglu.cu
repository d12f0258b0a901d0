// Q4 gate/up projection with SwiGLU:
//
//   out[t][i] = bf16(g / (1 + exp(-g)) * u),  g = sum_k w[i][k] x[t][k],  u = sum_k w[17408 + i][k] x[t][k], both FP32
//
// w is (34816, 5120) Q4 row-split (rowsplit.cuh): codes n * k / 2 bytes, scales n * k / 64 FP16. x is (columns, k) BF16, out
// (columns, 17408) BF16; `half` = 17408. All shared memory is static.
//
// q4_linear_swiglu_split_half<Cfg>   tiled GEMM (gemm_tile.cuh); the BM rows of a CTA are BM / 2 gate rows and the BM / 2 up rows
//   that belong to them. Grid (half / (BM / 2), ceil(columns / BN)), block Cfg::kThreads.
// q4_linear_swiglu_small_t<Cfg>      small-T MMA (small_t_mma.cuh); every tile of 16 rows is 8 gate and 8 up rows, so that one lane
//   holds both. columns <= XCols; one instantiation serves full and partly filled tiles. Grid 2 half / Cfg::kRows, block 256.
// q4_linear_swiglu_sliced<Cfg>       sliced K (sliced.cuh) of the unified table, tiles as in small_t. Grid half / (R / 2), block 32 W.
// q4_linear_swiglu_gemv_pair         one column, four outputs a CTA, a warp reads the gate and the up row of one (direct.cuh):
//   three stages, k = 5120. Grid half / 4, block 128.
#include "direct.cuh"
#include "gemm_tile.cuh"
#include "sliced.cuh"
#include "small_t_mma.cuh"

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_linear_swiglu_split_half(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* out,
                                int half, int k, int columns) {
  constexpr int kHalf = Cfg::kRows / 2;
  static_assert(kHalf % 8 == 0, "outputs are stored as vectors of eight rows");
  __shared__ __align__(128) unsigned char shared[GemmShared<Cfg, Q4>::kBytes];
  const int row0 = blockIdx.x * kHalf;
  gemm_tile<Cfg, Q4>(shared, RowSplit{codes, nullptr, scales}, SplitHalfRows<kHalf>{row0, half}, k, x, columns,
                     blockIdx.y * Cfg::kColumns, SwiGlu<Cfg::kRows, 0>{out + row0, half});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_linear_swiglu_small_t(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* out,
                             int half, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SmallTShared<Cfg, Q4>::kBytes];
  const int row0 = blockIdx.x * (Cfg::kRows / 2);
  small_t_mma<Cfg, Q4>(shared, RowSplit{codes, nullptr, scales}, GateUpRows{row0, half}, k, x, columns,
                       SwiGlu<Cfg::kRows, 8>{out + row0, half});
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_linear_swiglu_sliced(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* out,
                            int half, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[SlicedShared<Cfg, Q4>::kBytes];
  const int row0 = blockIdx.x * (Cfg::kRows / 2);
  sliced<Cfg, Q4>(shared, RowSplit{codes, nullptr, scales}, GateUpRows{row0, half}, k, x, columns,
                  blockIdx.y * Cfg::kColumns, SwiGlu<Cfg::kRows, 8>{out + row0, half});
}

constexpr int kPairRows = 4, kPairStages = 3, kPairK = 5120;

__global__ void __launch_bounds__(32 * kPairRows)
    q4_linear_swiglu_gemv_pair(const unsigned char* codes, const __half* scales, const __nv_bfloat16* x, __nv_bfloat16* out,
                               int half, int, int) {
  __shared__ __align__(128) unsigned char shared[ring_bytes<Q4, 2 * kPairRows, kPairStages>() + kPairK * 2];
  gemv_pair<Q4, kPairRows, kPairStages>(shared, RowSplit{codes, nullptr, scales}, blockIdx.x * kPairRows, half, kPairK, x,
                                        StoreElement{out, half});
}
