#include "framework/data/sentence_ids.h"

#include <vector>

#include "framework/data/subword_model.h"

namespace longspan {

SentenceIds sentence_ids(const Tokenizer& tokenizer) {
  SentenceIds ids{.begin = -1, .end = -1, .vocabulary = tokenizer.vocabulary()};
  if (const SubwordModel* model = tokenizer.subword_model()) {
    ids.begin = model->sentence_begin();
    ids.end = model->sentence_end();
  }
  if (ids.begin < 0) ids.begin = ids.vocabulary++;
  if (ids.end < 0) ids.end = ids.vocabulary++;
  return ids;
}

std::string decode_sentence(const Tokenizer& tokenizer, std::span<const std::int64_t> ids) {
  const SentenceIds special = sentence_ids(tokenizer);
  std::vector<std::int64_t> text;
  for (const std::int64_t id : ids) {
    if (id == special.end) break;
    if (id != special.begin) text.push_back(id);
  }
  return tokenizer.decode(text);
}

}  // namespace longspan
