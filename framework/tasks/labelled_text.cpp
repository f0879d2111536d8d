#include "framework/tasks/labelled_text.h"

#include <fmt/format.h>

namespace longspan {

std::string labelled_text_problem(const LabeledTaskSpec& kind, const DataOptions& data) {
  for (const auto& [path, name] : {std::pair(&data.train_target, "train"),
                                   std::pair(&data.validation_target, "validation"),
                                   std::pair(&data.test_target, "test")})
    if (!path->empty())
      return fmt::format(
          "data.{}_target is for run.task: translation, and run.task is {}, which "
          "reads one file; set one of them",
          name,
          kind.task);
  if (data.tokenizer == TokenizerKind::characters)
    return fmt::format(
        "data.tokenizer.type is char, which are those of data.train with its {0}; "
        "with run.task: {1} set it to byte, or to sentencepiece with "
        "data.tokenizer.model",
        kind.labels,
        kind.task);
  if (trains_tokenizer(data))
    return fmt::format(
        "data.tokenizer.type is {} without data.tokenizer.model, and data.train "
        "has {} beside its text; train a model on the text alone by longspan "
        "tokenizer train TEXT --output FILE.{}, and name it, or set "
        "data.tokenizer.type to byte",
        name_of(data.tokenizer),
        kind.labels,
        data.tokenizer == TokenizerKind::sentencepiece ? "model" : "json");
  return "";
}

}  // namespace longspan
