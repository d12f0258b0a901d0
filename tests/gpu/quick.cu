// read_all: read `n` 16-byte vectors and keep nothing, to push everything else out of the L2. Any grid, block 256.
extern "C" __global__ void read_all(const uint4* data, long long n, unsigned* sink) {
  unsigned seen = 0;
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n; i += stride) {
    const uint4 v = data[i];
    seen ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (seen == 0x12345678u) *sink = seen;
}
