// Attention input of the 27B model, x (columns, 5120) BF16:
//
//   q = W4[0:6144] x, k = W4[6144:7168] x (Q4);  gate = W5[0:6144] x, v = W5[6144:7168] x (Q5)
//
// Both parents are (7168, 5120), the four outputs (columns, rows) BF16; `split` is 6144. Layouts, grids and the kernels that the
// GDN input has too are in dual_parent.cuh. Only here:
//
// q4_q5_attn_input_gemm<Cfg, Format>   one parent by tiled GEMM (gemm_tile.cuh): grid (n / BM, ceil(columns / BN)).
// q4_q5_attn_input_row_block           Q5, up to 8 columns, 8 rows a CTA, x staged a slab at a time: grid n / 8, block 256.
#define DUAL_PARENT(kernel) q4_q5_attn_input_##kernel
constexpr bool kOverlapped = false;
#include "dual_parent.cuh"

template <typename Cfg, typename Format>
__global__ void __launch_bounds__(Cfg::kThreads, Cfg::kMinBlocks)
    q4_q5_attn_input_gemm(const unsigned char* codes, const unsigned char* high, const __half* scales,
                          const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                          int second_ld, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[GemmShared<Cfg, Format>::kBytes];
  const int row0 = blockIdx.x * Cfg::kRows;
  gemm_tile<Cfg, Format>(shared, RowSplit{codes, high, scales}, ConsecutiveRows{row0}, k, x, columns,
                         blockIdx.y * Cfg::kColumns, SplitOutput{first, first_ld, split, second, second_ld}.at(row0));
}

__global__ void __launch_bounds__(256, 2)
    q4_q5_attn_input_row_block(const unsigned char* codes, const unsigned char* high, const __half* scales,
                               const __nv_bfloat16* x, __nv_bfloat16* first, int first_ld, int split, __nv_bfloat16* second,
                               int second_ld, int k, int columns) {
  __shared__ __align__(128) unsigned char shared[kRowBlockBytes];
  row_block<Q5>(shared, RowSplit{codes, high, scales}, blockIdx.x * 8, k, x, columns,
                StoreSplitElement{first, second, split, first_ld, second_ld});
}
