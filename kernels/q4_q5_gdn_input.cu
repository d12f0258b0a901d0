// GDN input of the 27B model, x (columns, 5120) BF16:
//
//   qkv[0:4096] = W4 x (Q4);  qkv[4096:10240] = W5[0:6144] x, z = W5[6144:12288] x (Q5)
//
// Parents (4096, 5120) Q4 and (12288, 5120) Q5; qkv is (columns, 10240), z (columns, 6144), BF16. The Q4 parent is not split,
// `split` of the Q5 parent is 6144. Layouts, grids and kernels are in dual_parent.cuh, q4_q5_gdn_input_ before each name. The
// direct form launches split4 before simt at four columns.
#define DUAL_PARENT(kernel) q4_q5_gdn_input_##kernel
constexpr bool kOverlapped = true;
#include "dual_parent.cuh"
