// The memory policy of the calling thread, by direct system calls, so that libnuma is not needed.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "guard.h"

namespace {

// No kernel is built for more NUMA nodes than this. The kernel reads one bit less than the length that it is given.
constexpr size_t kNodes = 1024;
constexpr unsigned long kNodesPassed = kNodes + 1;

}  // namespace

// `mode` as in set_mempolicy(2); `mask` has 1024 bits.
SHIM_API int mc_set_memory_policy(int mode, const uint64_t* mask) {
  GUARD(-1, {
    uint64_t none = 0;
    for (size_t word = 0; word < kNodes / 64; word++) none |= mask[word];
    const bool empty = none == 0;
    if (syscall(SYS_set_mempolicy, mode, empty ? nullptr : mask, empty ? 0 : kNodesPassed) != 0) {
      throw std::runtime_error(std::string("set_mempolicy: ") + std::strerror(errno));
    }
    return 0;
  })
}

// Returns the mode; `mask` receives 1024 bits.
SHIM_API int mc_memory_policy(uint64_t* mask) {
  GUARD(-1, {
    int mode = 0;
    if (syscall(SYS_get_mempolicy, &mode, mask, kNodesPassed, nullptr, 0) != 0) {
      throw std::runtime_error(std::string("get_mempolicy: ") + std::strerror(errno));
    }
    return mode;
  })
}
