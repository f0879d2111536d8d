#include "tests/fuzz/memory_bound.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#ifdef LONGSPAN_ADDRESS_SANITIZER
// From <sanitizer/allocator_interface.h>, which GCC does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*,
                                                                  std::size_t),
                                                         void (*)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void*);
#endif

namespace longspan::fuzzing {

#ifdef LONGSPAN_ADDRESS_SANITIZER

namespace {

constexpr std::int64_t max_held = std::int64_t{256} << 20;

// The hooks of the sanitizer receive only the block, on any thread.
struct Counted {
  std::atomic<std::int64_t> held = 0;
  std::atomic<std::int64_t> most = INT64_MAX;
};
Counted& counted() {
  static Counted of_process;
  return of_process;
}

void add(const volatile void*, std::size_t bytes) {
  Counted& all = counted();
  if ((all.held += static_cast<std::int64_t>(bytes)) <= all.most) return;
  constexpr std::string_view what = "FINDING: more than 256 MiB beyond the input are held\n";
  all.most = INT64_MAX;  // the report of the finding allocates memory
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, what.data(), what.size());
  std::abort();
}

void subtract(const volatile void* block) {
  if (block == nullptr) return;
  counted().held -= static_cast<std::int64_t>(::__sanitizer_get_allocated_size(block));
}

}  // namespace

MemoryBound::MemoryBound(std::size_t input_bytes) {
  [[maybe_unused]] static const int installed =
      ::__sanitizer_install_malloc_and_free_hooks(add, subtract);
  counted().most = counted().held + max_held + static_cast<std::int64_t>(input_bytes);
}

MemoryBound::~MemoryBound() { counted().most = INT64_MAX; }

#else

MemoryBound::MemoryBound(std::size_t) {}
MemoryBound::~MemoryBound() = default;

#endif

}  // namespace longspan::fuzzing
