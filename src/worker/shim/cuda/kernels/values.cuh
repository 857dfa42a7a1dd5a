// Numbers of the type of activations, T, whose arithmetic is in fp32, and packs of them. The macro TYPE is float, fp16 or bf16.
#pragma once

typedef long long i64;
typedef unsigned short u16;
typedef unsigned int u32;

struct bf16 { u16 bits; };
struct fp16 { u16 bits; };

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline float wide(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ inline void narrow(float x, float& y) { y = x; }
__device__ inline void narrow(float x, fp16& y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
#if __CUDA_ARCH__ >= 800
__device__ inline void narrow(float x, bf16& y) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
#else
__device__ inline void narrow(float x, bf16& y) {
  u32 u = __float_as_uint(x);
  y.bits = (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
#endif

typedef TYPE T;

// C values of a row that are loaded together; a pack has 16 bytes.
template <int C> struct alignas(C * sizeof(T)) Values { T v[C]; };
constexpr int N = 16 / sizeof(T);
typedef Values<N> Pack;
template <int C = N> __device__ inline Values<C> load(const T* p) { return *(const Values<C>*)p; }
template <int C = N> __device__ inline void store(T* p, const Values<C>& x) { *(Values<C>*)p = x; }
