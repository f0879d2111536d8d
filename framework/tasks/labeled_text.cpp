#include "framework/tasks/labeled_text.h"

#include <fmt/format.h>

namespace longspan {

std::string validate_labeled_text(const LabeledTaskSpec& kind, const DataOptions& data) {
  for (const auto& [path, name] : {std::pair(&data.train_target, "train"),
                                   std::pair(&data.validation_target, "validation"),
                                   std::pair(&data.test_target, "test")})
    if (!path->empty())
      return fmt::format(
          "data.{}_target requires run.task: translation, found {}", name, kind.task);
  if (data.tokenizer == TokenizerKind::characters)
    return fmt::format(
        "data.tokenizer.type: run.task: {1} does not support char, whose vocabulary would include "
        "the {0} of data.train; set it to byte, or to sentencepiece with data.tokenizer.model",
        kind.labels,
        kind.task);
  if (trains_tokenizer(data))
    return fmt::format(
        "data.tokenizer.type: {} requires data.tokenizer.model, since data.train "
        "also contains {}; run longspan tokenizer train TEXT --output FILE.{} on "
        "the text alone, or set data.tokenizer.type to byte",
        name_of(data.tokenizer),
        kind.labels,
        data.tokenizer == TokenizerKind::sentencepiece ? "model" : "json");
  return "";
}

}  // namespace longspan
