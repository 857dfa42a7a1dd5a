// How every function of the shim reports errors: it stores the error's text for the calling thread, and returns an invalid value.
#pragma once
#include <exception>
#include <string>

inline thread_local std::string shim_error;

#define SHIM_API extern "C" __attribute__((visibility("default")))

// An exception must not unwind into Rust.
#define GUARD(bad, ...)                        \
  try {                                        \
    __VA_ARGS__                                \
  } catch (const std::exception& e) {          \
    shim_error = e.what();                     \
    return bad;                                \
  } catch (...) {                              \
    shim_error = "unknown C++ exception";      \
    return bad;                                \
  }
