#include "framework/training_loop/vocabulary_rows.h"

#include <algorithm>
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

namespace {

template <typename From, typename To>
void copy_rows(const Tensor& table,
               const StateTensor& piece,
               const Tensor& values,
               const std::vector<std::int64_t>& rows) {
  const std::int64_t width = table.elements() / table.shape()[0];
  const std::int64_t count = values.elements() / values.shape()[0];
  const std::int64_t column = piece.offset.size() > 1 ? piece.offset[1] : 0;
  for (std::int64_t i = 0; i < values.shape()[0]; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(piece.offset[0] + i)];
    if (row < 0) continue;
    const From* const from = table.data<From>() + row * width + column;
    std::transform(from, from + count, values.data<To>() + i * count, [](From value) {
      return static_cast<To>(value);
    });
  }
}

}  // namespace

std::vector<std::int64_t> same_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece) {
  const Tensor values = piece.tensor.to_host();
  const bool from_wide = table.dtype() == DType::f64;
  const bool to_wide = values.dtype() == DType::f64;
  const auto copy = from_wide ? (to_wide ? copy_rows<double, double> : copy_rows<double, float>)
                              : (to_wide ? copy_rows<float, double> : copy_rows<float, float>);
  copy(table, piece, values, rows);
  if (values.bytes() != piece.tensor.bytes()) piece.tensor.copy_from(values);
}

}  // namespace longspan
