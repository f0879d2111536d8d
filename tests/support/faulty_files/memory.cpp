// Interposed allocation functions.
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/support/faulty_files/watched.h"

extern "C" {
// The functions of libc, under the names that glibc exports for interposers. dlsym would allocate.
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace longspan::testing {
namespace {

constinit std::atomic<std::int64_t> calls = 0;
constinit std::atomic<std::int64_t> failing = 0;

bool fails() {
  if (Own::any()) return false;
  const std::int64_t number = ++calls;
  if (number != failing.load(std::memory_order_relaxed)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

void arm_memory(std::int64_t call) {
  failing = call;
  calls = 0;
}
std::int64_t memory_calls() { return calls; }
bool memory_struck() { return failing > 0 && calls >= failing; }

extern "C" {

void* malloc(std::size_t bytes) noexcept { return fails() ? nullptr : __libc_malloc(bytes); }

void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return fails() ? nullptr : __libc_calloc(count, bytes);
}

void* realloc(void* memory, std::size_t bytes) noexcept {
  return fails() ? nullptr : __libc_realloc(memory, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  if (fails()) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

}  // namespace longspan::testing
