// Output rows that go to two planes: rows 0 .. split - 1 of a weight parent to the first, the rest to the second.
#pragma once
#include "tile_store.cuh"

struct SplitOutput {
  __nv_bfloat16* first;  // where row 0 of token 0 goes
  int first_ld;
  int split;
  __nv_bfloat16* second;  // where row `split` of token 0 goes
  int second_ld;

  // Store of a tile that begins at `row` and does not straddle `split`.
  __device__ __forceinline__ Store at(int row) const {
    return row < split ? Store{first + row, first_ld} : Store{second + (row - split), second_ld};
  }
};
