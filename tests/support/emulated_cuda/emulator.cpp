#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/support/emulated_cuda/counts.h"
#include "tests/support/emulated_cuda/cuda_runtime.h"
#include "tests/support/ptx/kernels.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
// Compiled without the thread sanitizer, which would report races in the scheduler.
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>

// By default it waits a second for idle fibers.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

// Dynamic shared memory of the running block.
alignas(1024) unsigned char longspan_shared_bytes[emulated_cuda::max_shared_bytes];

namespace emulated_cuda {
namespace {

constexpr unsigned warp_size = 32;
constexpr unsigned max_threads = 1024;
constexpr std::size_t stack_bytes = 128 * 1024;

// A stack and its context. The sanitizers require notice of each switch.
struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack;  // none: the fiber that starts kernels
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t size = 0;
#endif
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
  void* tsan = nullptr;
#endif
};

void arrived([[maybe_unused]] Fiber& here, [[maybe_unused]] Fiber* from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(here.fake_stack,
                                  from == nullptr ? nullptr : &from->bottom,
                                  from == nullptr ? nullptr : &from->size);
#endif
}

void go([[maybe_unused]] Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
#endif
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
  swapcontext(&from.context, &to.context);
  arrived(from, nullptr);
}

// Work before `release_token` happens before work after `acquire_token` of the same token.
struct Token {
  char address = 0;
};
void release_token([[maybe_unused]] Token& token) {
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
  __tsan_release(&token);
#endif
}
void acquire_token([[maybe_unused]] Token& token) {
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
  __tsan_acquire(&token);
#endif
}

// Consecutive meetings alternate between two tokens: the first thread may release the next one
// before the last thread acquires this one.
using Tokens = std::array<Token, 2>;

// Whether a thread runs, or which threads it waits for.
enum class State { runs, waits_for_warp, waits_for_block, returned };

struct Thread {
  Fiber fiber;
  State state = State::returned;
  std::source_location place;     // where it waits
  std::array<Parcel, 2> parcels;  // alternating: the last but one is no longer read
  unsigned parcels_given = 0;
  unsigned block_meetings = 0;
  unsigned warp_meetings = 0;
  Tokens warp_tokens;  // in the first thread of the warp
};

// The threads of the running block, and the fiber that starts them.
class Machine {
 public:
  void run(const cudaLaunchConfig_t& config, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    blockDim = config.blockDim;
    gridDim = config.gridDim;
    while (threads_.size() < config.blockDim.x) add_thread();
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
    starter_.tsan = __tsan_get_current_fiber();
#endif
    for (unsigned block = 0; block < config.gridDim.x; ++block) {
      blockIdx = {block, 0, 0};
      shared_bytes_ = config.dynamicSmemBytes;
      prepare_shared_memory(shared_bytes_);
      run_block(config.blockDim.x);
    }
  }

  void meet(State whom, const std::source_location& place) {
    Thread& me = *threads_[threadIdx.x];
    Token& token = whom == State::waits_for_block
                       ? block_tokens_[me.block_meetings++ % 2]
                       : warp_of(threadIdx.x).warp_tokens[me.warp_meetings++ % 2];
    release_token(token);
    wait(me, whom, place);
    acquire_token(token);
  }

  void give(const Parcel& parcel, const std::source_location& place) {
    Thread& me = *threads_[threadIdx.x];
    me.parcels[++me.parcels_given % 2] = parcel;
    wait(me, State::waits_for_warp, place);
  }
  const Parcel& given(unsigned lane) const {
    const unsigned me = threadIdx.x;
    return threads_[me / warp_size * warp_size + lane]->parcels[threads_[me]->parcels_given % 2];
  }

  bool shares(const void* begin, std::size_t bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    const auto first = reinterpret_cast<std::uintptr_t>(longspan_shared_bytes);
    return at >= first && at + bytes <= first + shared_bytes_;
  }

 private:
  // Yields until all threads that it waits for have arrived.
  void wait(Thread& me, State whom, const std::source_location& place) {
    me.state = whom;
    me.place = place;
    go(me.fiber, starter_);
  }

  void add_thread() {
    auto thread = std::make_unique<Thread>();
    Fiber& fiber = thread->fiber;
    fiber.stack = std::make_unique<std::byte[]>(stack_bytes);
#if defined(__SANITIZE_ADDRESS__)
    fiber.bottom = fiber.stack.get();
    fiber.size = stack_bytes;
#endif
#if defined(LONGSPAN_TELL_THREAD_SANITIZER)
    fiber.tsan = __tsan_create_fiber(0);
#endif
    threads_.push_back(std::move(thread));
  }

  Thread& warp_of(unsigned thread) { return *threads_[thread / warp_size * warp_size]; }

  // Fills the requested shared memory with NaN and poisons the rest.
  static void prepare_shared_memory(std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(longspan_shared_bytes, bytes);
    ASAN_POISON_MEMORY_REGION(longspan_shared_bytes + bytes, max_shared_bytes - bytes);
#endif
    std::memset(longspan_shared_bytes, 0xff, bytes);
  }

  void run_block(unsigned count) {
    for (unsigned t = 0; t < count; ++t) {
      Thread& thread = *threads_[t];
      thread.state = State::runs;
      thread.parcels_given = thread.block_meetings = thread.warp_meetings = 0;
      getcontext(&thread.fiber.context);
      thread.fiber.context.uc_stack.ss_sp = thread.fiber.stack.get();
      thread.fiber.context.uc_stack.ss_size = stack_bytes;
      thread.fiber.context.uc_link = nullptr;
      makecontext(&thread.fiber.context, &Machine::body, 0);
    }
    release_token(start_);
    for (bool any = true; any;) {
      any = false;
      for (unsigned first = 0; first < count; first += warp_size) any |= run_warp(first);
      if (!any) any = release(0, count, State::waits_for_block);
    }
    acquire_token(end_);
    for (unsigned t = 0; t < count; ++t)
      if (threads_[t]->state != State::returned)
        fail("a thread waits here for others that never come", threads_[t]->place);
  }

  // Runs its threads until they wait for another warp; returns false if none could run.
  bool run_warp(unsigned first) {
    bool any = false;
    do {
      for (unsigned t = first; t < first + warp_size; ++t) {
        Thread& thread = *threads_[t];
        if (thread.state != State::runs) continue;
        any = true;
        threadIdx = {t, 0, 0};
        go(starter_, thread.fiber);
      }
    } while (release(first, first + warp_size, State::waits_for_warp));
    return any;
  }

  // Resumes the threads if all that have not returned wait for each other.
  bool release(unsigned begin, unsigned end, State whom) {
    const Thread* one = nullptr;
    for (unsigned t = begin; t < end; ++t) {
      const Thread& thread = *threads_[t];
      if (thread.state == State::returned) continue;
      if (thread.state != whom) return false;
      if (one == nullptr) one = &thread;
      if (thread.place.line() != one->place.line() ||
          std::strcmp(thread.place.file_name(), one->place.file_name()) != 0)
        fail("threads wait for each other at different places, one of them here", thread.place);
    }
    for (unsigned t = begin; t < end; ++t)
      if (threads_[t]->state == whom) threads_[t]->state = State::runs;
    return one != nullptr;
  }

  static void body();

  Fiber starter_;
  Token start_, end_;
  Tokens block_tokens_;
  std::vector<std::unique_ptr<Thread>> threads_;
  const std::function<void()>* kernel_ = nullptr;
  std::size_t shared_bytes_ = 0;
};

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

void Machine::body() {
  Machine& all = machine();
  Thread& me = *all.threads_[threadIdx.x];
  arrived(me.fiber, &all.starter_);
  acquire_token(all.start_);
  (*all.kernel_)();
  me.state = State::returned;
  release_token(all.end_);
  go(me.fiber, all.starter_);
}

}  // namespace

void fail(const char* what, const std::source_location& place) {
  std::fprintf(stderr, "%s:%u: %s\n", place.file_name(), place.line(), what);
  std::abort();
}

void expect_shared_piece(const void* piece, const std::source_location& place) {
  if (!machine().shares(piece, 16)) fail("16 bytes beyond the block's shared memory", place);
  if (reinterpret_cast<std::uintptr_t>(piece) % 16 != 0)
    fail("16 bytes that are not aligned", place);
}

void meet_in_block(const std::source_location& place) {
  machine().meet(State::waits_for_block, place);
}
void meet_in_warp(const std::source_location& place) {
  machine().meet(State::waits_for_warp, place);
}
void give(const Parcel& parcel, const std::source_location& place) {
  machine().give(parcel, place);
}
const Parcel& given(unsigned lane) { return machine().given(lane); }
unsigned lane() { return threadIdx.x % warp_size; }

namespace {

// Settings of kernels.
struct Kernels {
  std::mutex mutex;
  std::map<const void*, std::size_t> shared_bytes;
  int asked = 0;
  int first_refused = 0;
  int end_refused = 0;

  bool refuses() {
    const int number = asked++;
    return first_refused <= number && number < end_refused;
  }
};
Kernels& kernels() {
  static Kernels all;
  return all;
}

}  // namespace

void refuse_memory(int first, int end) {
  const std::lock_guard lock(kernels().mutex);
  kernels().first_refused = kernels().asked + first;
  kernels().end_refused = kernels().asked + end;
}

cudaError_t let_share(const void* kernel, std::size_t bytes) {
  const std::lock_guard lock(kernels().mutex);
  if (kernels().refuses()) return cudaErrorMemoryAllocation;
  if (bytes > max_shared_bytes) return cudaErrorInvalidValue;
  kernels().shared_bytes[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t run(const cudaLaunchConfig_t& config, const void* kernel, Call call) {
  constexpr std::size_t usual_shared_bytes = 48 * 1024;
  {
    const std::lock_guard lock(kernels().mutex);
    if (kernels().refuses()) return cudaErrorMemoryAllocation;
    const auto known = kernels().shared_bytes.find(kernel);
    const std::size_t most =
        known == kernels().shared_bytes.end() ? usual_shared_bytes : known->second;
    if (config.dynamicSmemBytes > most) return cudaErrorInvalidValue;
  }
  const dim3 &grid = config.gridDim, &threads = config.blockDim;
  const bool one_dimensional = grid.y == 1 && grid.z == 1 && threads.y == 1 && threads.z == 1;
  if (!one_dimensional || grid.x == 0 || threads.x == 0 || threads.x > max_threads ||
      threads.x % warp_size != 0)
    return cudaErrorInvalidConfiguration;
  count(&Counts::kernels);
  queue(config.stream, [config, kernel, call = std::move(call)] {
    const Access access;
    if (!ptx::runs_compiled(config, kernel, call.arguments)) machine().run(config, call.of_thread);
  });
  return cudaSuccess;
}

}  // namespace emulated_cuda
