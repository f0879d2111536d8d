// Prompts of `generate`: command-line words, or a file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/data/corpus/corpus.h"
#include "framework/decoding/generation.h"
#include "framework/distributed/session.h"

namespace longspan {

// Limit of a prompt file: 64 MiB.
inline constexpr std::int64_t max_prompt_bytes = std::int64_t{1} << 26;

// A value type. Reads files in pieces without holding them, except for subword tokenizers.
class PromptText {
 public:
  // If `file` is empty, `words` are the prompt; without words the prompt is the start of a
  // document. Does not read the contents yet. Throws DataError, naming the file, if it cannot be
  // read or is too large.
  PromptText(std::optional<std::string> words, const std::string& file);

  // Returns the prompt's tokens. A document starts with `first`, or else a newline or the
  // tokenizer's closest equivalent. Reports progress of long prompts on standard error. Both
  // arguments must outlive the result. Throws DataError for characters that the tokenizer lacks.
  // Throws ConfigurationError if an ID tokenizer has no token to start with.
  Prompt prompt(const Tokenizer& tokenizer,
                const Session& session,
                std::optional<std::int64_t> first = {});
  // Returns all tokens once they are known, for words and for files in subwords; otherwise none.
  std::span<const std::int64_t> last_tokens() const { return tokens_; }
  // Prints the prompt to standard output.
  void print(const Session& session) const;

 private:
  void begin_document(const Tokenizer& tokenizer,
                      const Session& session,
                      std::optional<std::int64_t> begin);

  std::optional<std::string> words_;
  std::shared_ptr<const InputFile> file_;
  std::vector<std::int64_t> tokens_;  // of the words, or of a file in subwords
  std::optional<Corpus> corpus_;      // of the file
};

}  // namespace longspan
