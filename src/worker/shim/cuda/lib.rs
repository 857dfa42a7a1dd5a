//! There is no Rust code here: `build.rs` links `libmulticard_cuda.so` and `libmulticard_cupti.so` beside the programs, which open them at
//! run time. They are a package of their own, so that building them does not build anything else again.
