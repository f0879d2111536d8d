// Lines of tagged words.
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

// Columns of a word and its tag. two: a word, a tab and a tag. upos, xpos: the form and the
// universal or language-specific part of speech of CoNLL-U (universaldependencies.org/format.html).
enum class TagColumns : std::uint8_t { two, upos, xpos };

struct TaggedWord {
  std::string_view word;
  std::string_view tag;
};

// Parses a line within a sentence. Returns nothing for CoNLL-U lines that are no word: comments,
// multiword tokens (1-2) and empty nodes (1.1). Throws DataError, prefixed with `place`, for
// another number of columns and for an empty word or tag.
std::optional<TaggedWord> tagged_word_of(std::string_view line,
                                         TagColumns columns,
                                         std::string_view place);

struct TaggedSentence {
  std::int64_t offset = 0;               // of its first line
  std::int64_t line = 0;                 // number of its first line
  std::vector<std::int64_t> lines = {};  // line numbers of its words
  std::vector<TaggedWord> words = {};
};

// Returns whether a line ends a sentence: it has at most white space.
bool ends_sentence(std::string_view line);

// Calls `f` with each sentence: the words between two lines that end one. The words are valid until
// it returns.
void for_each_sentence(const InputFile& file,
                       TagColumns columns,
                       const ProgressCallback& listener,
                       const std::function<void(const TaggedSentence&)>& f);

// Returns the tags of a file. Throws DataError. Collective.
LearnedLabels learn_tags(const ConfigPath& path,
                         TagColumns columns,
                         const Communicator& all,
                         const ProgressCallback& listener = {});

}  // namespace longspan
