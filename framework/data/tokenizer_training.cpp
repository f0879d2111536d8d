#include "framework/data/tokenizer_training.h"

#include "framework/data/lines.h"
#include "framework/data/mapped_file.h"
#include "framework/data/text_part_reader.h"
#include "framework/tokenizers/text_cuts.h"

namespace longspan {

JsonTokenizer train_json_tokenizer(std::span<const MappedFile* const> texts,
                                   const TokenizerRules& rules,
                                   const ScanListener& listener) {
  constexpr std::size_t most_bytes_of_a_part = std::size_t{1} << 24;
  const TokenizerTrainer trainer(rules);
  WordCounts words;
  std::string places;
  for (const MappedFile* const text : texts) {
    places += (places.empty() ? "" : " and ") + text->path();
    TextPartReader reader(*text, blank_to_cut_at, most_bytes_of_a_part);
    while (reader.next()) {
      const std::span<const TextPart> parts = reader.parts();
      std::vector<WordCounts> counts(parts.size());
      in_parallel(
          parts.size(), [&](std::size_t i) { counts[i] = trainer.count(parts[i].text); }, 1);
      for (const WordCounts& of_part : counts) words.add(of_part);
      if (listener) listener({text->path(), reader.at(), text->size()});
    }
  }
  const auto still_wanted = [&](std::int64_t) {
    const MappedFile& last = *texts.back();
    if (listener) listener({last.path(), last.size(), last.size()});
  };
  return JsonTokenizer(trainer.train(words, places, still_wanted), places);
}

}  // namespace longspan
