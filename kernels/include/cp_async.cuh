// Asynchronous copies from global to shared memory, and reads that bypass L1.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async
#pragma once

// Copy Bytes (4, 8 or 16) through L1.
template <int Bytes>
__device__ __forceinline__ void cp_async_ca(void* shared, const void* global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(global), "n"(Bytes)
               : "memory");
}

// Copy 16 bytes past L1.
__device__ __forceinline__ void cp_async_cg(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
}

// The same to a 32-bit shared address.
__device__ __forceinline__ void cp_async_cg_at(unsigned shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// Copy 16 bytes past L1, or write zeros where `live` is false (global must still be a valid address).
__device__ __forceinline__ void cp_async_cg_or_zero(void* shared, const void* global, bool live) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(global), "r"(live ? 16 : 0)
               : "memory");
}

// The two copies for a 32-bit shared address, done only where `wanted`; one instruction, no branch.
__device__ __forceinline__ void cp_async_cg_if(unsigned shared, const void* global, bool wanted) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16;}" ::"r"(shared), "l"(global),
               "r"(static_cast<int>(wanted))
               : "memory");
}
template <int Bytes>
__device__ __forceinline__ void cp_async_ca_if(unsigned shared, const void* global, bool wanted) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  asm volatile("{.reg .pred p; setp.ne.s32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], %2;}" ::"r"(shared), "l"(global),
               "n"(Bytes), "r"(static_cast<int>(wanted))
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait until at most Pending of the latest groups are under way.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// 4, 8 or 16 bytes of read-only data that are used once: past L1.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-ld-global-nc
__device__ __forceinline__ unsigned load_once_4(const void* global) {
  unsigned value;
  asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(global));
  return value;
}
__device__ __forceinline__ uint2 load_once_8(const void* global) {
  uint2 value;
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(global));
  return value;
}
__device__ __forceinline__ uint4 load_once_16(const void* global) {
  uint4 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(global));
  return value;
}

// 16 bytes into `value` if `wanted`, else `value` stays as it is.
__device__ __forceinline__ void load_16_if(uint4& value, const void* global, bool wanted) {
  asm("{.reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];}"
      : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
      : "l"(global), "r"(static_cast<int>(wanted)));
}
