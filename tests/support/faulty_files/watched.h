// What is watched, counted and logged: the state behind the calls of calls.cpp and memory.cpp.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>

#include "tests/support/faulty_files/faulty_files.h"

namespace longspan::testing {

// The function of that name that comes after this library's: libc's.
template <typename F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// While it lives the calls of this thread are this library's own, and go straight on.
class Own {
 public:
  Own();
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  ~Own();
  // Whether it lies within another one.
  bool nested() const { return nested_; }
  static bool any();

 private:
  bool nested_;
};

// One call of the program. Calls on watched files come one after another.
class Call {
 public:
  // On a path, relative to an open directory or AT_FDCWD; on an open file.
  Call(const char* name, int directory, const char* path);
  Call(const char* name, int descriptor);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Counts it; true, with errno set, when it is to fail.
  bool fails();
  // The same of what reads or writes; `bytes` may become less.
  bool fails(std::size_t& bytes);

  // What it opened or closed.
  void opened(int descriptor);
  void closed(int descriptor);

  bool logged() const;
  // Its path below the folder, and another one's.
  const std::string& place() const { return *place_; }
  static std::string place_of(int directory, const char* path);
  // A line of the log, and bytes that follow it.
  void log(std::initializer_list<std::string> fields,
           const void* bytes = nullptr,
           std::size_t count = 0) const;

 private:
  Own own_;
  std::unique_lock<std::mutex> lock_;
  const char* name_;
  std::optional<std::string> place_;  // nothing where it is not watched
};

// Of memory.cpp: the call that fails from now on (0: none), how many there were since then, and
// whether one failed.
void arm_memory(std::int64_t call);
std::int64_t memory_calls();
bool memory_struck();

}  // namespace longspan::testing
