#include "framework/data/data_options.h"

#include "framework/core/options.h"
#include "framework/data/mapped_file.h"

namespace longspan {

void declare(OptionTable& table, DataOptions& options) {
  table.add("data.train", options.train, "text file to learn from", required(), not_empty());
  table.add("data.validation",
            options.validation,
            "text file on which the loss is measured during training; none when empty");
  table.add("data.test", options.test, "text file for the last measurement; none when empty");
  table.add(
      "data.tokenizer",
      options.tokenizer,
      "what a token is: a byte (256 ids, any file), or a character of UTF-8 text (the ids are "
      "the characters of data.train)",
      {{"bytes", TokenizerKind::bytes}, {"characters", TokenizerKind::characters}},
      fixes_weights());
  table.add("data.unknown",
            options.unknown,
            "with data.tokenizer: characters, give characters that data.train lacks one id, "
            "<unknown>; otherwise such a character is an error. Measured losses count, beside the "
            "probability of <unknown>, which of all such characters it is",
            fixes_weights());
  table.add("data.batch",
            options.batch,
            "global number of streams the text is cut into, over all data ranks: the batch of one "
            "step; a multiple of parallel.data",
            between(1, 1 << 24));
  table.add("data.segment",
            options.segment,
            "tokens of each stream in one step",
            between(1, std::int64_t{1} << 36));
  table.add("data.read_ahead",
            options.read_ahead,
            "batches that are read before they are asked for",
            between(1, 1024));
}

Tokenizer make_tokenizer(const DataOptions& options, const ScanListener& listener) {
  if (options.tokenizer == TokenizerKind::bytes) return {};
  return Tokenizer::characters_of(MappedFile(options.train), options.unknown, listener);
}

}  // namespace longspan
