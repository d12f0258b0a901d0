// Toy family of the bench's tests: out[r] = sum over k of (W[r][k] mod 16) * scale, FP32, r < rows, k < cols, columns 1.
//
// grid rows, block THREADS; W: (rows, cols) u32; out: (rows) f32; scale 1, or another value for a wrong result.
// REPEAT: how often the row is read (a slower schedule of the same result).
// toy_stray writes one element past out; toy_fault reads from address 8; toy_hang spins for cycles.
template <int THREADS, int REPEAT>
__global__ void toy_sum(const unsigned* w, float* out, int cols, float scale) {
  __shared__ float part[THREADS];
  const unsigned* row = w + static_cast<long long>(blockIdx.x) * cols;
  float sum = 0.0f;
  for (int turn = 0; turn < REPEAT; ++turn)
    for (int k = threadIdx.x; k < cols; k += THREADS) {
      const unsigned word = *static_cast<const volatile unsigned*>(row + k);
      sum += static_cast<float>(word & 15u) * (1.0f / REPEAT);
    }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0] * scale;
}

__global__ void toy_stray(float* out, int rows) {
  for (int r = threadIdx.x; r < rows + 1; r += blockDim.x) out[r] = 1.0f;
}

__global__ void toy_fault(float* out) { out[0] = *reinterpret_cast<const float*>(8); }

__global__ void toy_hang(float* out, int seconds) {
  const long long start = clock64();
  while (clock64() - start < static_cast<long long>(seconds) * 1500000000ll) {
  }
  out[0] = 0.0f;
}
