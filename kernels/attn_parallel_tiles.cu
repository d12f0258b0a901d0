// Metadata of parallel query tiles: the positions of each tile as a batch row of its own.
//
// Grid 1, block 32. The columns of one wide row become `tiles` rows of `tokens` columns each; the split-KV launch that
// follows (attn_i8_small, grid.z = tiles) reads them as a batch.
//
//   positions       int32 [tiles x tokens], of the wide row
//   tile_positions  int32 [tiles][tokens]
__global__ void attn_parallel_tiles(const int* __restrict__ positions, int* __restrict__ tile_positions, int tiles,
                                    int tokens) {
  for (int i = threadIdx.x; i < tiles * tokens; i += blockDim.x) tile_positions[i] = positions[i];
}
