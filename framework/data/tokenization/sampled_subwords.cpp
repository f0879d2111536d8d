#include "framework/data/tokenization/sampled_subwords.h"

#include <algorithm>
#include <cmath>

#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/sentencepiece_model.h"

namespace longspan {

std::vector<std::int64_t> sample_subwords(const Tokenizer& tokenizer,
                                          std::string_view line,
                                          double alpha,
                                          std::size_t most,
                                          const Random& place,
                                          std::string_view where) {
  std::vector<std::int64_t> usual = tokenizer.encode(line, where);
  const SentencePieceModel* const model = tokenizer.subword_model();
  if (model == nullptr || line.size() > max_line_piece_length) return usual;
  auto found = model->segmentations(line, sampled_segmentations);
  std::erase_if(found, [most](const auto& one) { return one.ids.size() > most; });
  if (found.empty()) return usual;
  // Differences to the maximum log probability avoid underflow.
  std::vector<double> cumulative;
  double sum = 0;
  for (const auto& one : found)
    cumulative.push_back(sum +=
                         std::exp(alpha * (one.log_probability - found.front().log_probability)));
  const double drawn = static_cast<double>(place.word(0)) * 0x1p-32 * sum;
  const auto chosen =
      std::upper_bound(cumulative.begin(), cumulative.end() - 1, drawn) - cumulative.begin();
  return std::move(found[static_cast<std::size_t>(chosen)].ids);
}

}  // namespace longspan
