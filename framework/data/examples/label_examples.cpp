#include "framework/data/examples/label_examples.h"

#include <algorithm>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/data/tokenization/special_tokens.h"

namespace longspan {

namespace {

constexpr std::string_view line_form = "a class, a tab and a text";

struct LabeledText {
  std::string_view label;
  std::string_view text;
};

LabeledText labeled_text_of(std::string_view line, std::string_view place) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos)
    throw DataError("{}: expected a label, a tab and a text, found no tab{}",
                    place,
                    line.starts_with('{') ? "; convert JSON lines with jq -r '[.label, .text] | "
                                            "@tsv' FILE"
                                          : "");
  const LabeledText result = {line.substr(0, tab), line.substr(tab + 1)};
  if (result.label.empty()) throw DataError("{}: has no label before the tab", place);
  if (result.text.empty()) throw DataError("{}: has no text after the tab", place);
  return result;
}

ExampleIndex index_of(const InputFile& file,
                      const LabelSet& labels,
                      const Tokenizer& tokenizer,
                      const ProgressCallback& heard) {
  ExampleIndex index;
  const SpecialTokenTemplate frame(tokenizer);
  for_each_line_block(file, heard, [&](std::span<const Line> lines) {
    std::vector<std::int64_t> tokens(lines.size());
    parallel_for(lines.size(), [&](std::size_t i) {
      const std::string place = line_location(file.path(), lines[i].number);
      const LabeledText found = labeled_text_of(lines[i].text, place);
      if (labels.id_of(found.label) < 0 && labels.id_of(found.text) >= 0)
        throw DataError("{}: expected {}, found a text, a tab and the class {}; swap the columns",
                        place,
                        line_form,
                        quote(found.text));
      labels.id_at(found.label, "label", place);
      tokens[i] = std::ssize(framed_tokens(tokenizer, frame, found.text, place));
    });
    for (std::size_t i = 0; i < lines.size(); ++i)
      index.add(lines[i].offset, tokens[i], line_location(file.path(), lines[i].number));
  });
  index.finish(file.size());
  return index;
}

class LabelExamples final : public Examples {
 public:
  LabelExamples(SharedFile file,
                const LabelSet& labels,
                const Tokenizer& tokenizer,
                ExampleIndex index)
      : file_(std::move(file)),
        labels_(labels),
        tokenizer_(tokenizer),
        frame_(tokenizer),
        index_(std::move(index)) {}

  std::int64_t size() const override { return index_.size(); }
  const std::string& path() const override { return file_->path(); }
  std::string place(std::int64_t example) const override {
    return line_location(file_->path(), example + 1);
  }
  Lengths lengths(std::int64_t example) const override { return {0, index_.tokens(example)}; }

  Batch read(const BatchRequest& request) const override {
    const auto read_row = [&](std::int64_t example, std::span<std::int64_t> row) -> ClassRow {
      const std::string bytes = read_bytes(*file_, index_.begin(example), index_.end(example));
      const LabeledText found = labeled_text_of(without_line_end(bytes), place(example));
      const auto tokens =
          framed_tokens(tokenizer_, frame_, found.text, place(example), request.longest);
      if (tokens.size() > row.size()) throw DataError("{}: changed while reading", place(example));
      std::ranges::copy(tokens, row.begin());
      return {.length = std::ssize(tokens),
              .bytes = std::ssize(found.text),
              .label = labels_.id_at(found.label, "label", place(example))};
    };
    return read_class_rows(request, "tokens", read_row);
  }

 private:
  SharedFile file_;
  LabelSet labels_;
  Tokenizer tokenizer_;
  SpecialTokenTemplate frame_;
  ExampleIndex index_;
};

}  // namespace

LearnedLabels learn_labels(const ConfigPath& path,
                           const Communicator& all,
                           const ProgressCallback& listener) {
  const SharedFile file = open_shared(path, all);
  const std::string json =
      scan_shared(file, all, listener, [](const auto& text, const auto& heard) {
        LabelColumn column;
        for_each_line_block(text, heard, [&](std::span<const Line> lines) {
          for (const Line& line : lines) {
            const std::string place = line_location(text.path(), line.number);
            const LabeledText found = labeled_text_of(line.text, place);
            if (column.add(found.label, found.text))
              for_each_character(found.label, 0, true, place, [](char32_t, std::int64_t) {});
          }
        });
        return column.labels().to_json();
      });
  return LearnedLabels::from_json(json, path);
}

std::shared_ptr<const Examples> open_labels(const ConfigPath& path,
                                            const LabelSet& labels,
                                            const Tokenizer& tokenizer,
                                            const Communicator& all,
                                            const ProgressCallback& listener) {
  SharedFile file = open_shared(path, all);
  const std::string index =
      scan_shared(file, all, listener, [labels, tokenizer](const auto& text, const auto& heard) {
        return index_of(text, labels, tokenizer, heard).bytes();
      });
  return std::make_shared<const LabelExamples>(
      std::move(file), labels, tokenizer, ExampleIndex::from_bytes(index));
}

Batch read_class_rows(const BatchRequest& request,
                      const std::string& field,
                      const ReadClassRow& read) {
  const auto rows = std::ssize(request.examples);
  Batch batch;
  batch.fields = {{field, full_tensor({rows, request.columns.target}, 0)},
                  {"length", full_tensor({rows}, 0)},
                  {"label", full_tensor({rows}, ignored_target)}};
  batch.counts = {{"tokens", 0}, {"bytes", 0}, {"rows", 0}};
  for (std::size_t row = 0; row < request.examples.size(); ++row) {
    const std::int64_t example = request.examples[row];
    if (example < 0) continue;
    const ClassRow found = read(example, row_of(batch.field(field), row));
    batch.field("length").span<std::int64_t>()[row] = found.length;
    batch.field("label").span<std::int64_t>()[row] = found.label;
    batch.counts["tokens"] += found.length;
    batch.counts["bytes"] += found.bytes;
    batch.counts["rows"] += 1;
  }
  return batch;
}

}  // namespace longspan
