// A fault of one process, for faults.py, which compiles this and preloads it on one rank of a job.
// LONGSPAN_TEST_FAULT selects the fault:
//   new NUMBER        fails, as std::bad_alloc, the allocation of that number among those made
//                     within functions of the program: LONGSPAN_TEST_FAULT_WITHIN has their places,
//                     as "BEGIN-END BEGIN-END ..." in hexadecimal digits
//   nan FIRST COUNT   matrix products from that number on contain a NaN
//   slow FACTOR       all that is done from one matrix product to the next takes that many times as
//                     long
//   clock SECONDS     the clock of the wall is off by that much from time to time
// Where it strikes it makes the file that LONGSPAN_TEST_FAULT_STRUCK names.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Range = std::pair<std::uintptr_t, std::uintptr_t>;

struct Fault {
  std::string kind;
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::string struck;
  std::vector<Range> within;
};

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Fault read_fault() {
  Fault fault;
  std::istringstream(variable("LONGSPAN_TEST_FAULT")) >> fault.kind >> fault.first >> fault.second;
  fault.struck = variable("LONGSPAN_TEST_FAULT_STRUCK");
  std::uintptr_t program = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        *static_cast<std::uintptr_t*>(found) = info->dlpi_addr;
        return 1;  // the first one is the program
      },
      &program);
  std::istringstream ranges(variable("LONGSPAN_TEST_FAULT_WITHIN"));
  Range range;
  char between = 0;
  while (ranges >> std::hex >> range.first >> between >> range.second)
    fault.within.emplace_back(program + range.first, program + range.second);
  return fault;
}

// Reading a stack or the fault allocates too.
thread_local bool looks = false;
struct Looking {
  bool before = std::exchange(looks, true);
  ~Looking() { looks = before; }
};

const Fault& fault() {
  const Looking looking;
  static const Fault it = read_fault();
  return it;
}

void strike() {
  const int file = ::open(fault().struck.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (file >= 0) ::close(file);
}

// Where libstdc++ reads a folder it lets no exception out: it ends the process instead.
bool reads_a_folder(void* const* frames, int count) {
  for (int i = 0; i < count; ++i)
    if (Dl_info found; dladdr(frames[i], &found) != 0 && found.dli_sname != nullptr &&
                       std::strstr(found.dli_sname, "directory_iterator") != nullptr)
      return true;
  return false;
}

bool is_within() {
  void* frames[128];
  const int count = backtrace(frames, 128);
  for (int i = 0; i < count; ++i) {
    const auto at = reinterpret_cast<std::uintptr_t>(frames[i]);
    for (const auto& [begin, end] : fault().within)
      if (at >= begin && at < end) return !reads_a_folder(frames, i);
  }
  return false;
}

bool fails() {
  static std::atomic<std::int64_t> count{0};
  if (looks) return false;
  const Looking looking;
  if (fault().kind != "new" || !is_within() || ++count != fault().first) return false;
  strike();
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const block =
      alignment == 1 ? std::malloc(bytes > 0 ? bytes : 1) : std::aligned_alloc(alignment, whole);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void slow_down() {
  using Clock = std::chrono::steady_clock;
  constexpr Clock::duration most = std::chrono::milliseconds(200);  // not what a start takes
  thread_local Clock::time_point last = Clock::now();
  if (fault().kind != "slow") return;
  std::this_thread::sleep_for(std::min(most, (fault().first - 1) * (Clock::now() - last)));
  last = Clock::now();
}

// How far the wall's clock is off: now and then, there and back.
std::int64_t seconds_off() {
  static std::atomic<std::int64_t> count{0};
  if (looks || fault().kind != "clock" || ++count / 16 % 2 == 0) return 0;
  strike();
  return fault().first;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}

extern "C" {

int dnnl_sgemm(char transpose_a,
               char transpose_b,
               std::int64_t m,
               std::int64_t n,
               std::int64_t k,
               float alpha,
               const float* a,
               std::int64_t step_a,
               const float* b,
               std::int64_t step_b,
               float beta,
               float* c,
               std::int64_t step_c) {
  static const auto product =
      reinterpret_cast<decltype(&dnnl_sgemm)>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  static std::atomic<std::int64_t> count{0};
  const int status =
      product(transpose_a, transpose_b, m, n, k, alpha, a, step_a, b, step_b, beta, c, step_c);
  slow_down();
  const std::int64_t number = ++count;
  const bool strikes =
      fault().kind == "nan" && number >= fault().first && number < fault().first + fault().second;
  if (strikes) {
    strike();
    *c = std::nanf("");
  }
  return status;
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += seconds_off();
  return status;
}

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  timespec found;
  const int status = clock_gettime(CLOCK_REALTIME, &found);
  *now = {found.tv_sec, found.tv_nsec / 1000};
  return status;
}

time_t time(time_t* place) noexcept {
  timespec found;
  if (clock_gettime(CLOCK_REALTIME, &found) != 0) return -1;
  if (place != nullptr) *place = found.tv_sec;
  return found.tv_sec;
}

}  // extern "C"
