// libtorch's headers name this type where the shim does not use it, and the minimal set of wheels lacks its header.
#pragma once
using cublasLtHandle_t = struct cublasLtContext*;
