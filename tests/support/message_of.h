// The message of an expected exception.
#pragma once

#include <string>
#include <utility>

namespace longspan {

// Returns the message of the exception E that f throws; "" if it throws none.
template <typename E, typename F>
std::string message_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace longspan
