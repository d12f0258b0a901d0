// Arithmetic on packed 32-bit words, each helper one instruction.
#pragma once
#include <cuda_bf16.h>

// Four bytes picked from the eight of (a, b): https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prmt
__device__ __forceinline__ unsigned byte_permute(unsigned a, unsigned b, unsigned selector) {
  return __byte_perm(a, b, selector);
}

// `constant`, but in a register: an instruction takes one literal, and a second one would cost a move at every use. No launch
// here has more than one thread in z, which the compiler cannot know.
__device__ __forceinline__ unsigned in_register(unsigned constant) { return constant * blockDim.z; }

// Bits of `a` where `mask` is set, of `b` elsewhere. In assembly, because the compiler splits it where it knows bits of b:
// https://docs.nvidia.com/cuda/parallel-thread-execution/#logic-and-shift-instructions-lop3
__device__ __forceinline__ unsigned select_bits(unsigned a, unsigned b, unsigned mask) {
  unsigned out;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(out) : "r"(mask), "r"(a), "r"(b));
  return out;
}

// a * b + c on BF16 pairs, rounded once.
__device__ __forceinline__ unsigned bf16x2_fma(unsigned a, unsigned b, unsigned c) {
  unsigned out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

// a - b on BF16 pairs; exact where the result is representable. sub.bf16x2 is there from sm_90 on; below it is
// fma(b, -1, a): https://docs.nvidia.com/cuda/parallel-thread-execution/#half-precision-floating-point-instructions-sub
__device__ __forceinline__ unsigned bf16x2_sub(unsigned a, unsigned b) {
  unsigned out;
#if __CUDA_ARCH__ >= 900
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
#else
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(b), "r"(0xBF80BF80u), "r"(a));
#endif
  return out;
}

// FP32 values of a BF16 pair, low half first.
__device__ __forceinline__ float bf16_low(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float bf16_high(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }

// BF16 pair of two FP32 values, round to nearest even.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
