// A generated text sample.
#pragma once

#include <string>

namespace longspan {

// Sample of a validation input. UTF-8.
struct TextSample {
  std::string input;
  std::string output;
  std::string reference;  // the gold target
};

}  // namespace longspan
