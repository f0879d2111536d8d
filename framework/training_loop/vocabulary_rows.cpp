#include "framework/training_loop/vocabulary_rows.h"

#include <array>
#include <numeric>

#include "framework/core/error.h"
#include "framework/core/utf8.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

// Returns the row of `from` for the character that `id` has in `to`.
std::int64_t row_of_character(const Tokenizer& from, const Tokenizer& to, std::int64_t id) {
  const bool is_unknown = to.has_unknown() && id == 0;
  if (is_unknown) return from.has_unknown() ? 0 : -1;
  const std::array<std::int64_t, 1> one = {id};
  const std::int64_t row = from.id_of(decode_utf8(to.decode(one)).code_point);
  const bool is_lacking = row < 0 || (from.has_unknown() && row == 0);
  return is_lacking ? -1 : row;
}

// Tokens match by name. An ID without text matches only the same ID.
std::int64_t row_of_token(const Tokenizer& from, const Tokenizer& to, std::int64_t id) {
  if (to.kind() == TokenizerKind::ids) return id < from.vocabulary() ? id : -1;
  if (const SentencePieceModel* const model = to.subword_model())
    return from.subword_model()->id_of(model->piece(id));
  const JsonTokenizer* const model = to.json_tokenizer();
  if (model == nullptr) return row_of_character(from, to, id);
  const std::string& token = model->token(id);
  return token.empty() ? -1 : from.json_tokenizer()->id_of(token);
}

}  // namespace

std::vector<std::int64_t> matching_rows(const VocabularyTable& from, const VocabularyTable& to) {
  require(from.tokenizer.kind() == to.tokenizer.kind(),
          "cannot match vocabulary rows of different tokenizer types");
  std::vector<std::int64_t> rows(static_cast<std::size_t>(to.rows), -1);
  if (from.tokenizer == to.tokenizer) {
    const auto both = static_cast<std::ptrdiff_t>(std::min(from.rows, to.rows));
    std::iota(rows.begin(), rows.begin() + both, 0);
    return rows;
  }
  for (std::int64_t id = 0; id < to.tokenizer.vocabulary(); ++id)
    rows[static_cast<std::size_t>(id)] = row_of_token(from.tokenizer, to.tokenizer, id);
  return rows;
}

}  // namespace longspan
