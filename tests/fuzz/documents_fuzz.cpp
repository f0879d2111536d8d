// Training corpora: plain or .jsonl, optionally compressed by gzip or zstd. Small and large blocks
// must produce the same documents.
#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/decompressed_file.h"
#include "framework/data/corpus/document_reader.h"
#include "framework/data/corpus/document_text.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

// A small file may decompress to terabytes, which takes time but no memory.
constexpr std::size_t max_unpacked = std::size_t{1} << 20;

bool is_larger(const std::shared_ptr<const InputFile>& file) {
  DecompressedFile unpacked(file);
  std::string bytes(max_unpacked + 1, '\0');
  return unpacked.read(bytes) > max_unpacked;
}

struct Documents {
  std::vector<std::string> texts;
  std::string error;
};

Documents documents_of(const std::shared_ptr<const InputFile>& file,
                       const DocumentFormat& form,
                       DocumentParts parts,
                       std::size_t block) {
  Documents read;
  try {
    DocumentReader reader(
        file, form, {.parts = parts, .longest = 2 * max_unpacked, .block = block});
    for (Document document; reader.next(document);) {
      reader.extract_text(document);
      reader.location_of(document);
      read.texts.push_back(std::move(document.text));
    }
  } catch (const DataError& error) {
    read.error = error.what();
  }
  return read;
}

void read_characters(const std::shared_ptr<const InputFile>& file, const DocumentFormat& form) {
  const Tokenizer tokenizer = characters_of_documents(file, form, true);
  if (!is_plain_text(*file, form)) return;
  const CorpusFile corpus(file, tokenizer);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.tokens()));
  expect(corpus.read(corpus.seek(0), ids).byte == corpus.bytes(),
         "a text has bytes of no character");
}

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  constexpr const char* names[] = {
      "text.txt", "text.jsonl", "text.txt.gz", "text.txt.zst", "text.jsonl.gz", "text.jsonl.zst"};
  const unsigned choice = take_byte(bytes);
  const std::string path = folder.put(names[choice % 6], bytes);
  const DocumentFormat form = {.boundary = static_cast<DocumentBoundary>(choice / 6 % 4)};
  const auto parts = choice / 24 % 2 == 0 ? DocumentParts::none : DocumentParts::bytes;
  const auto file = std::make_shared<const InputFile>(path);
  if (is_larger(file)) return;
  const Documents whole = documents_of(file, form, parts, std::size_t{1} << 20);
  // In a damaged file the number of documents before the error depends on the block size.
  const Documents again = documents_of(file, form, parts, 61);
  expect(whole.error.empty() == again.error.empty(), "a file is damaged in small blocks alone");
  if (whole.error.empty() && parts == DocumentParts::none)
    expect(whole.texts == again.texts, "a file has other documents in small blocks");
  if (!whole.error.empty()) throw DataError("{}", whole.error);
  read_characters(file, form);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
