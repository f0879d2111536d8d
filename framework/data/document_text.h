// The texts of a file's documents, for what is learnt of them before there are tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "framework/core/input_file.h"
#include "framework/data/document_form.h"
#include "framework/data/scan_listener.h"
#include "framework/data/tokenizer.h"

namespace longspan {

// Whether a file is nothing but its text: it is not packed, and no .jsonl.
bool is_plain_text(const InputFile& file);

// Tokenizer::characters_of, of the texts of the documents.
Tokenizer characters_of_documents(std::shared_ptr<const InputFile> file,
                                  const DocumentForm& form,
                                  bool with_unknown,
                                  const ScanListener& listener = {});

// A plain file of at most about so many bytes of the documents' texts, as many of the beginning as
// of the end, with a line's end behind each. It goes with the object.
class DocumentSample {
 public:
  // The file is made in this folder. Reads all of the text once. Throws DataError for what is wrong
  // with it and Failure when the sample cannot be written.
  DocumentSample(std::shared_ptr<const InputFile> file,
                 const DocumentForm& form,
                 std::int64_t bytes,
                 const std::filesystem::path& folder,
                 const ScanListener& listener = {});
  DocumentSample(const DocumentSample&) = delete;
  DocumentSample& operator=(const DocumentSample&) = delete;
  ~DocumentSample();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace longspan
