// libtorch's headers name these types where the shim does not use it, and the minimal set of wheels lacks its header.
#pragma once
using cublasHandle_t = struct cublasContext*;
enum cublasStatus_t : int;
