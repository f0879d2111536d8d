// Lines of tagged words, and the examples that they form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/rank_zero.h"
#include "framework/data/tokenization/tokenizer.h"

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

// Sentences of tagged words.

// Fields: `tokens` [rows, T], the words, separated by spaces if the tokenizer has one; `targets`
// [rows, T], a word's tag at its first token and ignored_target elsewhere; `length` [rows]. A
// separate space token before a word has no tag; the first token of its letters has. Truncation may
// split a word. Then, with BatchRequest::with_left_out, `left_out` [rows, n] has the tags of words
// that were dropped, padded with -1. Counts: "tokens" (tagged words read), "left_out" (tagged words
// dropped), "bytes" (text of the words read) and "rows".
//
// Rank 0 reads the file once. The index takes 8 bytes a sentence. Throws DataError for an invalid
// line and for a tag outside of `tags`. Collective.
std::shared_ptr<const Examples> open_tags(const ConfigPath& path,
                                          TagColumns columns,
                                          const LabelSet& tags,
                                          const Tokenizer& tokenizer,
                                          const Communicator& all,
                                          const ProgressCallback& listener = {});

}  // namespace longspan
