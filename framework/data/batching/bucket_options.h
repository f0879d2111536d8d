// Options of `data` for examples batched by length.
#pragma once

#include <cstdint>
#include <string>

namespace longspan {

class OptionTable;

// Policy for an example with more than data.max_length tokens.
enum class OverlongPolicy : std::uint8_t { truncate, skip, error };

struct BucketOptions {
  // data.global_batch_tokens: tokens of a global batch, padding included
  std::int64_t batch_tokens = 8192;
  std::int64_t longest = 1024;  // data.max_length: tokens of one side of an example; 0: unlimited
  OverlongPolicy too_long = OverlongPolicy::error;  // data.overlong_examples
  std::int64_t length_multiple = 8;                 // data.pad_to_multiple_of
  double subword_sampling = 0;                      // data.tokenizer.sampling_alpha; 0: no sampling

  // Returns the columns of the longest side plus `more` tokens, padding included; 0: unlimited.
  std::int64_t max_columns_length(std::int64_t more = 1) const {
    return longest == 0
               ? 0
               : (longest + more + length_multiple - 1) / length_multiple * length_multiple;
  }
};

void declare(OptionTable& table, BucketOptions& options);

// Returns an error for padded lengths that `context` context-parallel ranks do not divide, or "".
std::string validate_context(const BucketOptions& options, std::int64_t context);

}  // namespace longspan
