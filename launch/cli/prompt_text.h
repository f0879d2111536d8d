// What `generate` goes on from: words of the command line, or a file.
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

// Of a file that is a prompt: 64 MiB.
inline constexpr std::int64_t most_prompt_bytes = std::int64_t{1} << 26;

// A value. A file is read a piece at a time, never held, but for one in subwords.
class PromptText {
 public:
  // `file`: where it is empty the words are the prompt, and where there are none a document begins.
  // Throws DataError, naming the file, when it cannot be read or is too large; nothing of it is
  // read yet.
  PromptText(std::optional<std::string> words, const std::string& file);

  // Its tokens; of a document that begins with `first`, or else a newline, or the nearest to it
  // that the tokenizer has. Throws DataError for characters that the tokenizer lacks, and
  // ConfigurationError where a tokenizer of ids has nothing to begin with. Both must outlive what
  // is returned; how far a long prompt has been read is said on standard error.
  Prompt prompt(const Tokenizer& tokenizer,
                const Session& session,
                std::optional<std::int64_t> first = {});
  // Once they are known: of words, and of a file in subwords, all of them; else none.
  std::span<const std::int64_t> last_tokens() const { return tokens_; }
  // To standard output.
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
