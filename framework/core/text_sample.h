// A text that a model made, for people to read.
#pragma once

#include <string>

namespace longspan {

// Of an input of the validation data. UTF-8.
struct TextSample {
  std::string input;
  std::string output;
  std::string reference;  // what stands in the data instead
};

}  // namespace longspan
