#!/usr/bin/env python3
"""Makes a trace in Kineto's form for a GPU, as if recorded: python3 make.py OUT.json.gz [GB]

No GPU ran what is in it: times are drawn from a seeded generator. Steps copy a batch, launch kernels on stream 7 and collectives on stream
20, which overlap, and wait. With a size in GB it makes that much JSON, which tests/records measures; without, a few steps.
"""

import gzip
import json
import random
import sys

PID = 4242
KERNELS = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, "
    "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(cudnn::ops::nchw2nhwc_params_t<float>, "
    "__half const*, __half*)",
    "triton_poi_fused_add_gelu_3",
]
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COLLECTIVE = {"Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 8, "dtype": "BFloat16"}


def us(ns):
    return f"{ns // 1000}.{ns % 1000:03}"


def event(category, name, place, start, duration, arguments):
    return (f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {place[0]}, "tid": {place[1]},\n'
            f'    "ts": {us(start)}, "dur": {us(duration)},\n    "args": {{\n      {json.dumps(arguments)[1:-1]}\n    }}\n  }}')


class Steps:
    def __init__(self, kernels):
        self.kernels, self.random = kernels, random.Random(1)
        self.now, self.number, self.correlation, self.free = 1_000_000, 0, 0, {7: 0, 20: 0}

    def launched(self, category, call, name, stream, duration, arguments):
        """A call of the host, and the work that it launches."""
        self.correlation += 1
        correlation = {"correlation": self.correlation}
        host = (PID, PID)
        yield event("cuda_runtime", call, host, self.now, 5_500, {"External id": self.correlation, "cbid": 211} | correlation)
        yield (f'  {{\n    "ph": "s", "id": {self.correlation}, "pid": {PID}, "tid": {PID}, "ts": {us(self.now)},\n'
               '    "cat": "ac2g", "name": "ac2g"\n  }')
        start = max(self.now + 9_000, self.free[stream])
        self.free[stream] = start + duration
        where = {"External id": self.correlation, "device": 0, "context": 1, "stream": stream} | correlation
        yield event(category, name, (0, stream), start, duration, where | arguments)
        self.now += 6_000

    def step(self):
        begin = self.now
        yield from self.launched("gpu_memcpy", "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", 7, 40_960,
                                 {"bytes": 1 << 20, "memory bandwidth (GB/s)": 25.6})
        yield from self.launched("gpu_memset", "cudaMemsetAsync", "Memset (Device)", 7, 1_500, {"bytes": 512})
        for number in range(self.kernels):
            began = self.now
            shapes = {"External id": number, "Sequence number": number, "Input type": ["float", "float", "ScalarList"],
                      "Input Strides": [[192, 64, 8, 1], [27, 9, 3, 1], []], "Input Dims": [[2, 3, 8, 8], [4, 3, 3, 3], []]}
            launch = {"registers per thread": 32, "shared memory": 0, "blocks per SM": 1.5, "warps per SM": 12.0, "grid": [216, 1, 1],
                      "block": [128, 1, 1], "est. achieved occupancy %": 31, "graph id": 0, "graph node id": 0}
            name = self.random.choice(KERNELS)
            self.now += 3_000
            yield from self.launched("kernel", "cudaLaunchKernel", name, 7, self.random.randrange(2_000, 30_000), launch)
            yield event("cpu_op", "aten::op", (PID, PID), began, self.now - began, shapes)
            if number % 20 == 19:
                began = self.now
                yield from self.launched("kernel", "cudaLaunchKernelExC", NCCL, 20, self.random.randrange(20_000, 500_000), COLLECTIVE)
                yield event("cpu_op", "record_param_comms", (PID, PID), began, self.now - began, COLLECTIVE)
        end = max(self.free.values()) + 10_000
        yield event("cuda_runtime", "cudaStreamSynchronize", (PID, PID), self.now, end - self.now, {"cbid": 131})
        self.now = end + 50_000
        yield event("user_annotation", f"ProfilerStep#{self.number}", (PID, PID), begin, self.now - begin, {"External id": self.number})
        self.number += 1


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    least_bytes = float(sys.argv[2]) * 1e9 if len(sys.argv) == 3 else 0
    opened = gzip.GzipFile(sys.argv[1], "wb", 9, mtime=0) if sys.argv[1].endswith(".gz") else open(sys.argv[1], "wb")
    with opened as out:
        written = out.write((
            '\n  {\n    "schemaVersion": 1,\n    "deviceProperties": [\n    {\n      "id": 0, "name": "NVIDIA H100 80GB HBM3", '
            '"totalGlobalMem": 85014806528, "computeMajor": 9, "computeMinor": 0, "numSms": 132\n    }\n    ],\n'
            '      "made_by": "make.py",\n      "torch_version": "2.11.0",\n'
            '      "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},\n'
            '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1790857026000000000,\n  "traceEvents": [\n').encode())
        steps = Steps(400 if least_bytes else 40)
        while written < least_bytes or steps.number < 3:
            written += out.write((",\n".join(steps.step()) + ",\n").encode())
        out.write((event("Trace", "PyTorch Profiler (0)", ('"Spans"', '"PyTorch Profiler"'), 900_000, steps.now - 800_000, {"Op count": 0})
                   + '\n  ],\n  "traceName": "trace.json"\n}').encode())


if __name__ == "__main__":
    main()
