#include "framework/data/examples/tag_examples.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/examples/example_index.h"
#include "framework/data/tokenization/special_tokens.h"

namespace longspan {

namespace {

ExampleIndex index_of(const InputFile& file,
                      TagColumns columns,
                      const LabelSet& tags,
                      const WordTokens& words,
                      const ProgressCallback& heard) {
  ExampleIndex index;
  std::vector<std::int64_t> tokens;
  for_each_sentence(file, columns, heard, [&](const TaggedSentence& sentence) {
    tokens.clear();
    words.begin(tokens);
    for (std::size_t i = 0; i < sentence.words.size(); ++i) {
      const std::string place = line_location(file.path(), sentence.lines[i]);
      tags.id_at(sentence.words[i].tag, "tag", place);
      words.add(sentence.words[i].word, place, tokens);
    }
    words.end(tokens);
    index.add(sentence.offset, std::ssize(tokens), line_location(file.path(), sentence.line));
  });
  index.finish(file.size());
  if (index.size() == 0) throw DataError("{}: has no word with a tag", file.path());
  return index;
}

class TagExamples final : public Examples {
 public:
  TagExamples(SharedFile file,
              TagColumns columns,
              const LabelSet& tags,
              const WordTokens& words,
              ExampleIndex index)
      : file_(std::move(file)),
        columns_(columns),
        tags_(tags),
        words_(words),
        index_(std::move(index)) {}

  std::int64_t size() const override { return index_.size(); }
  const std::string& path() const override { return file_->path(); }
  std::string place(std::int64_t example) const override {
    return line_location(file_->path(), line_number_at(*file_, index_.begin(example)));
  }
  Lengths lengths(std::int64_t example) const override { return {0, index_.tokens(example)}; }

  Batch read(const BatchRequest& request) const override {
    const auto rows = std::ssize(request.examples);
    Batch batch;
    batch.fields = {{"tokens", full_tensor({rows, request.columns.target}, 0)},
                    {"targets", full_tensor({rows, request.columns.target}, ignored_target)},
                    {"length", full_tensor({rows}, 0)}};
    batch.counts = {{"tokens", 0}, {"left_out", 0}, {"bytes", 0}, {"rows", 0}};
    std::vector<std::vector<std::int64_t>> left_out(request.examples.size());
    for (std::size_t row = 0; row < request.examples.size(); ++row) {
      if (request.examples[row] < 0) continue;
      left_out[row] = read_row(request, row, batch);
      batch.counts["rows"] += 1;
      batch.counts["left_out"] += std::ssize(left_out[row]);
    }
    if (request.with_left_out && batch.counts["left_out"] > 0) add_left_out(left_out, batch);
    return batch;
  }

 private:
  static void add_left_out(const std::vector<std::vector<std::int64_t>>& tags, Batch& batch) {
    std::size_t most = 0;
    for (const auto& of_row : tags) most = std::max(most, of_row.size());
    const Tensor field =
        full_tensor({std::ssize(tags), static_cast<std::int64_t>(most)}, ignored_target);
    for (std::size_t row = 0; row < tags.size(); ++row)
      std::ranges::copy(tags[row], row_of(field, row).begin());
    batch.fields["left_out"] = field;
  }

  // Returns the tags of words that do not fit in the row.
  std::vector<std::int64_t> read_row(const BatchRequest& request,
                                     std::size_t row,
                                     Batch& batch) const {
    const std::int64_t example = request.examples[row];
    const std::int64_t begin = index_.begin(example);
    const std::string bytes = read_bytes(*file_, begin, index_.end(example));
    const SpecialTokenTemplate& frame = words_.frame();
    const std::int64_t longest = std::min(
        request.columns.target, request.longest > 0 ? request.longest : request.columns.target);
    // Includes the special tokens before the sentence.
    const std::int64_t most = frame.room(longest, file_->path()) + std::ssize(frame.before());
    const auto targets = row_of(batch.field("targets"), row);
    std::vector<std::int64_t> tokens, left_out;
    words_.begin(tokens);
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
      const std::string_view line = without_line_end(std::string_view(bytes).substr(at, end - at));
      if (ends_sentence(line)) break;
      at = end + 1;
      const auto word = tagged_word_of(line, columns_, file_->path());
      if (!word) continue;
      const std::int64_t tag = tags_.id_at(word->tag, "tag", file_->path());
      const std::size_t first = left_out.empty() ? words_.add(word->word, file_->path(), tokens)
                                                 : static_cast<std::size_t>(most);
      if (static_cast<std::int64_t>(first) >= most) {
        left_out.push_back(tag);
        continue;
      }
      targets[first] = tag;
      batch.counts["tokens"] += 1;
      batch.counts["bytes"] += std::ssize(word->word);
    }
    if (tokens.size() == frame.before().size() ||
        (request.longest == 0 && std::ssize(tokens) > most))
      throw DataError("{}: changed while reading", place(example));
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(most)));
    words_.end(tokens);
    std::ranges::copy(tokens, row_of(batch.field("tokens"), row).begin());
    batch.field("length").span<std::int64_t>()[row] = std::ssize(tokens);
    return left_out;
  }

  SharedFile file_;
  TagColumns columns_;
  LabelSet tags_;
  WordTokens words_;
  ExampleIndex index_;
};

}  // namespace

std::shared_ptr<const Examples> open_tags(const ConfigPath& path,
                                          TagColumns columns,
                                          const LabelSet& tags,
                                          const Tokenizer& tokenizer,
                                          const Communicator& all,
                                          const ProgressCallback& listener) {
  SharedFile file = open_shared(path, all);
  const WordTokens words(tokenizer);
  const std::string index =
      scan_shared(file, all, listener, [columns, tags, words](const auto& text, const auto& heard) {
        return index_of(text, columns, tags, words, heard).bytes();
      });
  return std::make_shared<const TagExamples>(
      std::move(file), columns, tags, words, ExampleIndex::from_bytes(index));
}

}  // namespace longspan
