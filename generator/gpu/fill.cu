// Fills operands on the device exactly as kernels/fill.py fills them on the host.
//
// words:   word i of the buffer is hash(i, seed)
// uniform: element i is low + (high - low) * (hash(i, seed) >> 8) / 2^24, FP32 without contraction, rounded to the type
//
// grid: any, block: 256; n counts words (fill_words) or elements (fill_uniform).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned word_hash(unsigned index, unsigned seed) {
  unsigned h = index * 0x9E3779B9u ^ seed;
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= h >> 15;
  h *= 0x846ca68bu;
  h ^= h >> 16;
  return h;
}

__global__ void fill_words(unsigned* out, long long n, unsigned seed) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n; i += stride)
    out[i] = word_hash(static_cast<unsigned>(i), seed);
}

template <typename T>
__device__ __forceinline__ T narrow(float value);
template <>
__device__ __forceinline__ float narrow<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half narrow<__half>(float value) { return __float2half_rn(value); }
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }

template <typename T>
__global__ void fill_uniform(T* out, long long n, unsigned seed, float low, float high) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n; i += stride) {
    const float unit = static_cast<float>(word_hash(static_cast<unsigned>(i), seed) >> 8) * 5.9604644775390625e-8f;
    out[i] = narrow<T>(__fadd_rn(low, __fmul_rn(__fsub_rn(high, low), unit)));
  }
}
