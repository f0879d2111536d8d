#include "framework/data/examples/tagged_words.h"

#include <algorithm>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

constexpr std::size_t columns_of_conllu = 10;

std::vector<std::string_view> cut_at_tabs(std::string_view line) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t tab = line.find('\t', begin);
    parts.push_back(line.substr(begin, tab - begin));
    if (tab == std::string_view::npos) return parts;
    begin = tab + 1;
  }
}

// Words of a sentence that may continue in the next block of lines, whose memory is freed.
class Gathered {
 public:
  void add(const Line& line, const TaggedWord& word) {
    words_.emplace_back(word.word, word.tag);
    sentence_.lines.push_back(line.number);
  }
  void begin(const Line& line) {
    if (has_started_) return;
    has_started_ = true;
    sentence_.offset = line.offset;
    sentence_.line = line.number;
  }
  void give(const std::function<void(const TaggedSentence&)>& f) {
    for (const auto& [word, tag] : words_) sentence_.words.push_back({word, tag});
    if (!words_.empty()) f(sentence_);
    words_.clear();
    sentence_ = {};
    has_started_ = false;
  }

 private:
  bool has_started_ = false;
  std::vector<std::pair<std::string, std::string>> words_;
  TaggedSentence sentence_;
};

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

bool ends_sentence(std::string_view line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const Utf8Character character = decode_utf8(rest);
    if (character.status != Utf8Status::valid || !is_white_space(character.code_point))
      return false;
    rest.remove_prefix(static_cast<std::size_t>(character.width));
  }
  return true;
}

std::optional<TaggedWord> tagged_word_of(std::string_view line,
                                         TagColumns columns,
                                         std::string_view place) {
  const bool is_conllu = columns != TagColumns::two;
  if (is_conllu && line.starts_with('#')) return {};
  const auto parts = cut_at_tabs(line);
  if (!is_conllu) {
    if (parts.size() != 2)
      throw DataError("{}: expected a word, one tab and its tag, found {} tabs{}",
                      place,
                      parts.size() - 1,
                      parts.size() == columns_of_conllu || line.starts_with("# ")
                          ? "; set data.tag_format to conllu_upos or conllu_xpos for CoNLL-U"
                          : "");
    if (parts[0].empty()) throw DataError("{}: has no word before the tab", place);
    if (parts[1].empty()) throw DataError("{}: has no tag after the tab", place);
    return TaggedWord{parts[0], parts[1]};
  }
  if (parts.size() != columns_of_conllu)
    throw DataError(
        "{}: expected {} tab-separated columns of CoNLL-U, found {}{}",
        place,
        columns_of_conllu,
        parts.size(),
        parts.size() == 2 ? "; set data.tag_format to tsv for a word, a tab and its tag" : "");
  if (parts[0].find_first_of("-.") != std::string_view::npos) return {};
  const TaggedWord word = {parts[1], parts[columns == TagColumns::upos ? 3 : 4]};
  if (word.word.empty()) throw DataError("{}: has no word in column 2", place);
  if (word.tag.empty() || word.tag == "_")
    throw DataError("{}: expected a tag in column {}, found {}",
                    place,
                    columns == TagColumns::upos ? 4 : 5,
                    quote(word.tag));
  return word;
}

void for_each_sentence(const InputFile& file,
                       TagColumns columns,
                       const ProgressCallback& listener,
                       const std::function<void(const TaggedSentence&)>& f) {
  Gathered gathered;
  for_each_line_block(file, listener, [&](std::span<const Line> lines) {
    for (const Line& line : lines) {
      if (ends_sentence(line.text)) {
        gathered.give(f);
        continue;
      }
      gathered.begin(line);
      const auto word = tagged_word_of(line.text, columns, line_location(file.path(), line.number));
      if (word) gathered.add(line, *word);
    }
  });
  gathered.give(f);
}

LearnedLabels learn_tags(const ConfigPath& path,
                         TagColumns columns,
                         const Communicator& all,
                         const ProgressCallback& listener) {
  const SharedFile file = open_shared(path, all);
  const std::string json =
      scan_shared(file, all, listener, [columns](const auto& text, const auto& heard) {
        LabelColumn column;
        bool is_empty = true;
        for_each_sentence(text, columns, heard, [&](const TaggedSentence& sentence) {
          for (std::size_t i = 0; i < sentence.words.size(); ++i) {
            const TaggedWord& word = sentence.words[i];
            is_empty = false;
            if (!column.add(word.tag, word.word)) continue;
            const std::string place = line_location(text.path(), sentence.lines[i]);
            for_each_character(word.tag, 0, true, place, [](char32_t, std::int64_t) {});
          }
        });
        if (is_empty) throw DataError("{}: has no word with a tag", text.path());
        LearnedLabels learned = column.labels();
        if (columns != TagColumns::two) learned.texts.reset();  // CoNLL-U columns cannot be swapped
        return learned.to_json();
      });
  return LearnedLabels::from_json(json, path);
}

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
