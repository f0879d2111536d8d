// Lines of words with tags.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/shared_file.h"

namespace longspan {

// Where a word and its tag are: a word, a tab and a tag; or the form and one of two columns of
// CoNLL-U (universaldependencies.org/format.html): the universal or the language's own part of
// speech.
enum class TagColumns : std::uint8_t { two, upos, xpos };

struct TaggedWord {
  std::string_view word;
  std::string_view tag;
};

// Of a line that ends no sentence; nothing for lines of CoNLL-U that are no word: comments, words
// that are several (1-2) and words that are not written (1.1). Throws DataError, which begins with
// `place`, for another number of columns, and for a word or a tag that is empty.
std::optional<TaggedWord> tagged_word_of(std::string_view line,
                                         TagColumns columns,
                                         std::string_view place);

struct TaggedSentence {
  std::int64_t offset = 0;               // of its first line
  std::int64_t line = 0;                 // number of its first line
  std::vector<std::int64_t> lines = {};  // numbers of the lines of its words
  std::vector<TaggedWord> words = {};
};

// Whether a line ends a sentence: it is empty or has only white space.
bool ends_sentence(std::string_view line);

// Calls `f` with each sentence: the words between two lines that end one. The words are there until
// it returns.
void for_each_sentence(const InputFile& file,
                       TagColumns columns,
                       const ProgressCallback& listener,
                       const std::function<void(const TaggedSentence&)>& f);

// The tags of a file. A collective. Throws DataError.
LearnedLabels learn_tags(const ConfigPath& path,
                         TagColumns columns,
                         const Communicator& all,
                         const ProgressCallback& listener = {});

}  // namespace longspan
