// Programmatic dependent launch, sm_90 and later; nothing below, where the second kernel is a plain launch.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-griddepcontrol
#pragma once

// Let a dependent kernel start as soon as every CTA of this grid has called this.
__device__ __forceinline__ void allow_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Wait until the kernel before has finished. A kernel that shares nothing with it calls this last: whoever waits for this kernel
// then waits for both.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
