// Watched calls of calls.cpp and memory.cpp: faults, counts and the log.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>

#include "tests/support/faulty_files/faulty_files.h"

namespace longspan::testing {

// The function of this name in libc.
template <typename F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// During its lifetime, calls of this thread are internal: they are passed on to libc.
class Own {
 public:
  Own();
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  ~Own();
  // Whether it is inside the lifetime of another one.
  bool nested() const { return nested_; }
  static bool any();

 private:
  bool nested_;
};

// One call of the program. Calls on watched files are serialized.
class Call {
 public:
  // A call on a path, relative to an open directory or AT_FDCWD, or on an open file.
  Call(const char* name, int directory, const char* path);
  Call(const char* name, int descriptor);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Counts the call. Sets errno and returns true if it must fail.
  bool fails();
  // For calls that read or write. A fault can reduce `bytes`.
  bool fails(std::size_t& bytes);

  // Records an opened or closed descriptor.
  void opened(int descriptor);
  void closed(int descriptor);

  bool logged() const;
  // Path relative to the directory: of this call, of any path.
  const std::string& place() const { return *place_; }
  static std::string position_of(int directory, const char* path);
  // Appends a line to the log, followed by `bytes`.
  void log(std::initializer_list<std::string> fields,
           const void* bytes = nullptr,
           std::size_t count = 0) const;

 private:
  Own own_;
  std::unique_lock<std::mutex> lock_;
  const char* name_;
  std::optional<std::string> place_;  // empty: not watched
};

// Allocations (memory.cpp): sets the failing call (0: none), returns the number of calls since then
// and whether one failed.
void arm_memory(std::int64_t call);
std::int64_t memory_calls();
bool memory_struck();

}  // namespace longspan::testing
