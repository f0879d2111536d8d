// Fault injection for calls on files and for allocations, and a log of changes of the file system.
//
// The library interposes libc in a program that links it or is started with it in LD_PRELOAD: calls
// on files under one directory, and allocations. Environment variables configure a program that
// does not call it (watched.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace longspan::testing {

// The next call that must fail.
struct Fault {
  enum class Of { files, memory };

  std::int64_t call = 0;  // number of the failing call, from 1; 0: none
  int error = 0;  // its errno. 0: it transfers half of its bytes, and only calls that transfer
                  // several bytes are counted
  Of of = Of::files;
  std::string name = {};  // counts only calls of this name, such as "fsync"; empty: all
};

// Numbers of calls since `arm`.
struct CallsSeen {
  std::int64_t files = 0;
  std::int64_t transfers = 0;  // calls that read or wrote several bytes
  std::int64_t memory = 0;
  std::string struck;  // the failed call, as "rename step-000000003"; empty: none
};

// Starts to count and log calls under this directory. They can fail.
void watch_files_below(const std::filesystem::path& folder);
void arm(const Fault& fault);
// Ends counting and faults.
CallsSeen disarm();

// Starts to log each call that changes the disk, and the texts of `mark`.
// Format: tests/reliability/crash_states.py.
void log_calls_to(const std::filesystem::path& log);
void mark(const std::string& text);

}  // namespace longspan::testing
