// The keys of `data` for examples that are batched by their length.
#pragma once

#include <cstdint>
#include <string>

namespace longspan {

class OptionTable;

// What becomes of an example that has more tokens than data.max_length.
enum class OverlongPolicy : std::uint8_t { truncate, skip, error };

struct BucketOptions {
  // data.global_batch_tokens: of a global batch, padding included
  std::int64_t batch_tokens = 8192;
  std::int64_t longest = 1024;  // data.max_length: tokens of one side of an example; 0: any
  OverlongPolicy too_long = OverlongPolicy::error;  // data.overlong_examples
  std::int64_t length_multiple = 8;                 // data.pad_to_multiple_of
  double subword_sampling = 0;                      // data.tokenizer.sampling_alpha: 0: none

  // Columns of a side with so many tokens more, its padding included; 0: any number.
  std::int64_t longest_columns(std::int64_t more = 1) const {
    return longest == 0
               ? 0
               : (longest + more + length_multiple - 1) / length_multiple * length_multiple;
  }
};

void declare(OptionTable& table, BucketOptions& options);

// What is wrong with padded lengths that are cut over `context` ranks; "" where nothing is.
std::string context_problem(const BucketOptions& options, std::int64_t context);

}  // namespace longspan
