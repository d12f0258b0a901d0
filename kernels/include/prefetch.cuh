// Pulls weights into the L2 ahead of the copies that read them.
//
// The pipelines here advance by 32 to 256 bytes of a row, too little in flight for a memory with a long latency: the bytes
// under way per multiprocessor would set the pace. A hint per 128-byte line, some hundred bytes ahead of the copies, leaves
// tile, warp and stage structure as they are and turns the copies into L2 hits.
#pragma once

// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prefetch-prefetchu
__device__ __forceinline__ void prefetch_l2(const void* global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }
