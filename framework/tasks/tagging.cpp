#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "framework/data/examples/tagged_words.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/metrics/classification.h"
#include "framework/metrics/sums.h"
#include "framework/metrics/text.h"
#include "framework/modeling/heads.h"
#include "framework/tasks/labeled_data.h"
#include "framework/tasks/registry.h"

namespace longspan {
namespace {

class TagScores : public LabelScores {
 public:
  // Tags that only the evaluated file has do not change the tagging scheme.
  TagScores(const LabelSet& learnt, const LabelSet& tags)
      : names_(tags.names()), found_(tags.size()) {
    const std::optional<SpanScheme> scheme = span_scheme_of(learnt.names());
    if (!scheme) return;
    tags_.emplace(tags.names(), *scheme);
    spans_.emplace(tags_->types().size());
  }

  void add(const Batch& batch, const Tensor& choices) override {
    const auto left_out = batch.fields.find("left_out");
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows()); ++row) {
      const auto chosen = row_of(choices, row), wanted = row_of(batch.field("targets"), row);
      std::vector<std::int64_t> predicted(chosen.begin(), chosen.end());
      std::vector<std::int64_t> tags(wanted.begin(), wanted.end());
      // Words lost by truncation have no prediction and count as errors.
      if (left_out != batch.fields.end()) {
        std::ranges::copy(row_of(left_out->second, row), std::back_inserter(tags));
        predicted.resize(tags.size(), -1);
      }
      found_.add(predicted, tags);
      if (spans_) spans_->add(*tags_, predicted, tags);
    }
  }
  std::vector<double> sums() const override {
    std::vector<double> result;
    append_sums(found_, result);
    if (spans_) append_sums(*spans_, result);
    return result;
  }
  std::vector<MetricValue> figures(std::span<const double> sums) override {
    sums = consume_sums(found_, sums);
    if (!spans_) return longspan::metric_values(found_, names_);
    consume_sums(*spans_, sums);
    std::vector<MetricValue> result = longspan::metric_values(*spans_, tags_->types());
    result.insert(
        result.begin(),
        {{"accuracy", found_.accuracy(), "percent"}, {"macro_f1", found_.macro_f1(), "percent"}});
    return result;
  }

 private:
  std::vector<std::string> names_;
  Classification found_;
  std::optional<SpanTags> tags_;  // where tags mark spans
  std::optional<SpanScores> spans_;
};

// Words are separated by white space.
std::vector<LabeledLine> words_of_line(const PredictRequest& request, std::size_t line) {
  const WordTokens words(request.tokenizer);
  LabeledLine result;
  words.begin(result.tokens);
  for (const std::string_view word : words_of(request.lines[line]))
    result.places.push_back(words.add(word, request.place(line), result.tokens));
  if (result.places.empty()) return {LabeledLine()};
  words.end(result.tokens);
  return {result};
}

LabeledTaskSpec tagged_words() {
  LabeledTaskSpec kind;
  kind.task = "tagging";
  kind.documentation =
      "prediction of a tag for each word of a sentence; files have one word and its tag per line, "
      "as in data.tag_format, and an empty line after each sentence";
  kind.label = "tag";
  kind.labels = "tags";
  kind.example = "sentence";
  kind.unit = "nats per tag";
  kind.line = "a word, a tab and its tag";
  kind.count = "tokens";
  kind.target = "targets";
  kind.each_token = true;
  kind.goals = {{"accuracy"}, {"macro_f1"}, {"span_f1"}};
  kind.readout = tagging_head();
  kind.problem = [words = kind](const DataOptions& data) {
    return validate_labeled_text(words, data);
  };
  kind.learn =
      [](const DataOptions& data, const Communicator& all, const ProgressCallback& listener) {
        return learn_tags(data.train, data.tag_columns, all, listener);
      };
  kind.open = [](const LabeledFile& file) {
    return open_tags(
        file.path, file.data.tag_columns, file.labels, file.tokenizer, file.all, file.listener);
  };
  kind.remark = [](const LabelSet& tags) { return span_remark(tags.names()); };
  kind.scores = [](const LabelSet& learnt, const LabelSet& tags) {
    return std::make_unique<TagScores>(learnt, tags);
  };
  kind.read = words_of_line;
  return kind;
}

}  // namespace

TaskSpec tagging_task() {
  return labeled_task([](const DataOptions&) { return tagged_words(); });
}

}  // namespace longspan
