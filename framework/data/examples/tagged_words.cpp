#include "framework/data/examples/tagged_words.h"

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/tokenization/character_scan.h"
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

}  // namespace longspan
