#include "framework/data/batching/bucket_options.h"

#include <fmt/format.h>

#include "framework/options/options.h"

namespace longspan {

void declare(OptionTable& table, BucketOptions& options) {
  table.add("data.global_batch_tokens",
            options.batch_tokens,
            "tokens of one step's batch over all data ranks, padding and both sides of pairs "
            "included; examples of like length share a batch",
            between(1, std::int64_t{1} << 40));
  table.add("data.max_length",
            options.longest,
            "tokens of an example, of each side of a pair, beyond which it is too long; 0: none is",
            between(0, 1 << 24));
  table.add("data.overlong_examples",
            options.too_long,
            "handling of examples that are too long: cut after data.max_length tokens "
            "(truncate), left out (skip; of training, elsewhere it is cut), or refused (error)",
            {{"truncate", OverlongPolicy::truncate},
             {"skip", OverlongPolicy::skip},
             {"error", OverlongPolicy::error}});
  table.add("data.pad_to_multiple_of",
            options.length_multiple,
            "padded lengths are multiples of this; where parallel.context_parallel_size is above "
            "1, a multiple of twice that",
            between(1, 1 << 20));
  table.add("data.tokenizer.sampling_alpha",
            options.subword_sampling,
            "with a unigram model of SentencePiece, training reads another segmentation of a line "
            "each epoch, drawn from the 64 likeliest with probabilities to the power of this (0.1 "
            "or 0.2 are usual); 0: always the likeliest",
            between(0.0, 100.0));
}

std::string context_problem(const BucketOptions& options, std::int64_t context) {
  if (context <= 1 || options.length_multiple % (2 * context) == 0) return "";
  return fmt::format(
      "data.pad_to_multiple_of = {}: parallel.context_parallel_size = {} cuts padded lengths into "
      "{} parts; a multiple of {} is needed",
      options.length_multiple,
      context,
      2 * context,
      2 * context);
}

}  // namespace longspan
