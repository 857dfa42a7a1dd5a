// How every function of the shim fails: the error's text is kept for the calling thread, and a bad value is returned.
#pragma once
#include <exception>
#include <string>

inline thread_local std::string shim_error;

#define SHIM_API extern "C" __attribute__((visibility("default")))

// Nothing may be thrown through Rust.
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
