// C++20 features and GCC types that Clang 14 lacks. The build includes this header before each
// source file. SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__clang__) && __clang_major__ < 15
// Clang 15 added _Float16 on x86-64; __fp16 is an older 16-bit storage type.
#define _Float16 __fp16

// Standard libraries provide it only for compilers with a newer builtin.
namespace std {
struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           const char* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE(),
                                           unsigned column = __builtin_COLUMN()) {
    source_location here;
    here.file_ = file;
    here.function_ = function;
    here.line_ = line;
    here.column_ = column;
    return here;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  unsigned line_ = 0;
  unsigned column_ = 0;
};
}  // namespace std
#endif
