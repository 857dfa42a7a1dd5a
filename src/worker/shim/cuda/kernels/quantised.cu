// The kernels for matrices that are stored in another form than products read, and for rows in FP8. They give the same numbers as quantised.h.
#include "values.cuh"

__device__ inline float rounded(float x) { T y; narrow(x, y); return wide(y); }

// Converts `count` numbers from NF4: a thread writes N of them, which are in the same block of 64.
extern "C" __global__ void dequantise(const unsigned char* codes, const signed char* scales, const T* factors, const T* mean,
                                      const T* levels, T* out, i64 count) {
  __shared__ float level[16];
  if (threadIdx.x < 16) level[threadIdx.x] = wide(levels[threadIdx.x]);
  __syncthreads();
  i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (i >= count) return;
  i64 block = i / 64;
  float scale = rounded(rounded((float)scales[block] / wide(factors[block / 256])) + wide(mean[0]));
  struct alignas(N / 2) Codes { unsigned char v[N / 2]; } c = *(const Codes*)(codes + i / 2);
  Pack p;
  for (int k = 0; k < N / 2; k++) {
    narrow(level[c.v[k] >> 4] * scale, p.v[2 * k]);
    narrow(level[c.v[k] & 15] * scale, p.v[2 * k + 1]);
  }
  store(out + i, p);
}

// 4-bit integers times one scale for each group of `group` numbers. A warp works on one of `count` groups.
extern "C" __global__ void fake_quantise_groups(const T* w, T* out, int group, i64 count) {
  i64 g = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (g >= count) return;
  int lane = threadIdx.x % 32;
  const T* from = w + g * group;
  float most = 0;
  for (int i = lane * N; i < group; i += 32 * N) {
    Pack p = load(from + i);
    for (int k = 0; k < N; k++) most = fmaxf(most, fabsf(wide(p.v[k])));
  }
  for (int m = 16; m > 0; m >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, m));
  float scale = fmaxf(rounded(most / 7.5f), 1.1920929e-7f), inverse = 1.0f / scale;
  for (int i = lane * N; i < group; i += 32 * N) {
    Pack p = load(from + i);
    for (int k = 0; k < N; k++) narrow(fminf(fmaxf(rintf(wide(p.v[k]) * inverse), -8.0f), 7.0f) * scale, p.v[k]);
    store(out + g * group + i, p);
  }
}

// The maximum of the values of a block's threads, returned to all of them.
__device__ inline float block_most(float x) {
  __shared__ float part[32];
  for (int m = 16; m > 0; m >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, m));
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = x;
  __syncthreads();
  float most = part[0];
  for (int w = 1; w < (int)(blockDim.x >> 5); w++) most = fmaxf(most, part[w]);
  return most;
}

// Rows in FP8 (e4m3), each divided by a scale by which its greatest number becomes 448. A block works on one row.
extern "C" __global__ void quantise_rows(const T* x, unsigned char* codes, float* scales, int width, i64 stride) {
#if __CUDA_ARCH__ >= 890
  const T* row = x + blockIdx.x * stride;
  float most = 0;
  for (int i = threadIdx.x * N; i < width; i += blockDim.x * N) {
    Pack p = load(row + i);
    for (int k = 0; k < N; k++) most = fmaxf(most, fabsf(wide(p.v[k])));
  }
  float scale = fmaxf(block_most(most) * (1.0f / 448.0f), 1.17549435e-38f), inverse = 1.0f / scale;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  struct alignas(N) Codes { u16 v[N / 2]; };
  for (int i = threadIdx.x * N; i < width; i += blockDim.x * N) {
    Pack p = load(row + i);
    Codes c;
    for (int k = 0; k < N / 2; k++) {
      float first = wide(p.v[2 * k]) * inverse, second = wide(p.v[2 * k + 1]) * inverse;
      // The first operand goes into the upper byte.
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(c.v[k]) : "f"(second), "f"(first));
    }
    *(Codes*)(codes + (i64)blockIdx.x * width + i) = c;
  }
#else
  __trap();   // the host does not call it there
#endif
}

// 8-bit integers between the smallest and greatest number of a row and 0. A block works on one row.
extern "C" __global__ void fake_quantise_tokens(const T* x, T* out, int width, i64 stride) {
  const T* row = x + blockIdx.x * stride;
  float above = 0, below = 0;
  for (int i = threadIdx.x * N; i < width; i += blockDim.x * N) {
    Pack p = load(row + i);
    for (int k = 0; k < N; k++) {
      above = fmaxf(above, wide(p.v[k]));
      below = fmaxf(below, -wide(p.v[k]));
    }
  }
  float high = block_most(above), low = -block_most(below);
  float scale = fmaxf(rounded(rounded(high - low) / 255.0f), rounded(1.1920929e-7f));
  float least = rounded(low / scale), most = rounded(high / scale);
  bool from_least = rounded(rounded(least - 128.0f) + rounded(most + 127.0f)) > 0;
  float zero = from_least ? rounded(-least - 128.0f) : rounded(127.0f - most);
  zero = rintf(fminf(fmaxf(zero, -128.0f), 127.0f));
  float inverse = 1.0f / scale;
  for (int i = threadIdx.x * N; i < width; i += blockDim.x * N) {
    Pack p = load(row + i);
    for (int k = 0; k < N; k++) {
      float code = fminf(fmaxf(rintf(wide(p.v[k]) * inverse) + zero, -128.0f), 127.0f);
      narrow((code - zero) * scale, p.v[k]);
    }
    store(out + (i64)blockIdx.x * width + i, p);
  }
}
