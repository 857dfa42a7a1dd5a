// libtorch's headers name these types where the shim does not use it, and the minimal set of wheels lacks its header.
#pragma once
using cusparseHandle_t = struct cusparseContext*;
enum cusparseStatus_t : int;
