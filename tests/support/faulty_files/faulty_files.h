// Calls on files that fail when a test wants it, and a log of what reached the file system.
//
// The library stands before libc's: a program that is linked with it, or started with it in
// LD_PRELOAD, comes through here with each call on a file below one folder, and with each that
// takes memory. A program that knows nothing of it is told by its environment (watched.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace longspan::testing {

// What is to go wrong, of what comes from now on.
struct Fault {
  enum class Of { files, memory };

  std::int64_t call = 0;  // this one, counted from 1; 0: all go well
  int error = 0;  // with this errno. 0: it reads or writes a part of what it should, and only
                  // those that read or write several bytes are counted
  Of of = Of::files;
  std::string name = {};  // calls of another name, such as "fsync", are not counted; empty: all are
};

// How many calls there were since `arm`.
struct CallsSeen {
  std::int64_t files = 0;
  std::int64_t transfers = 0;  // of them, those that read or wrote several bytes
  std::int64_t memory = 0;
  std::string struck;  // the call that the fault met, as "rename step-000000003"; empty: none
};

// Calls on what lies below this folder are counted from now on, may fail, and are logged.
void watch_files_below(const std::filesystem::path& folder);
void arm(const Fault& fault);
// And no call fails any more.
CallsSeen disarm();

// From now on each call that changes what is on the disk is written to that file, and what `mark`
// says between them. The format is read by tests/reliability/crash_states.py.
void log_calls_to(const std::filesystem::path& log);
void mark(const std::string& text);

}  // namespace longspan::testing
