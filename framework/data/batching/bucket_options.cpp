#include "framework/data/batching/bucket_options.h"

#include <fmt/format.h>

#include "framework/options/options.h"

namespace longspan {

void declare(OptionTable& table, BucketOptions& options) {
  table.add("data.global_batch_tokens",
            options.batch_tokens,
            "global batch size in tokens, over all data-parallel ranks, including padding and "
            "both sides of pairs; a batch has examples of similar length",
            between(1, std::int64_t{1} << 40));
  table.add("data.max_length",
            options.longest,
            "maximum length of an example, or of each side of a pair, in tokens; 0: unlimited",
            between(0, 1 << 24));
  table.add("data.overlong_examples",
            options.too_long,
            "handling of examples longer than data.max_length: truncate, skip (in training, "
            "elsewhere truncate) or error",
            {{"truncate", OverlongPolicy::truncate},
             {"skip", OverlongPolicy::skip},
             {"error", OverlongPolicy::error}});
  table.add("data.pad_to_multiple_of",
            options.length_multiple,
            "multiple to which lengths are padded; with parallel.context_parallel_size above 1, a "
            "multiple of twice that",
            between(1, 1 << 20));
  table.add("data.tokenizer.sampling_alpha",
            options.subword_sampling,
            "subword regularization: exponent of the probabilities from which each epoch samples "
            "one of the 64 best segmentations of a line (usually 0.1 or 0.2); 0: always the best. "
            "Ignored by a model other than unigram",
            between(0.0, 100.0),
            only_with(is("data.tokenizer.type", {"sentencepiece"})));
}

std::string validate_context(const BucketOptions& options, std::int64_t context) {
  if (context <= 1 || options.length_multiple % (2 * context) == 0) return "";
  return fmt::format(
      "data.pad_to_multiple_of: expected a multiple of {} (2 x parallel.context_parallel_size = "
      "{}), found {}",
      2 * context,
      context,
      options.length_multiple);
}

}  // namespace longspan
