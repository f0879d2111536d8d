// Texts to learn from: plain, .jsonl, packed by gzip or zstd, in documents. What is read in small
// blocks is what is read in large ones.
#include "framework/data/corpus/corpus_file.h"
#include "framework/data/corpus/decompressed_file.h"
#include "framework/data/corpus/document_reader.h"
#include "framework/data/corpus/document_text.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

// A small file may unpack to terabytes, which takes its time and no memory.
constexpr std::size_t most_unpacked = std::size_t{1} << 20;

bool is_larger(const std::shared_ptr<const InputFile>& file) {
  DecompressedFile unpacked(file);
  std::string bytes(most_unpacked + 1, '\0');
  return unpacked.read(bytes) > most_unpacked;
}

struct Documents {
  std::vector<std::string> texts;
  std::string trouble;
};

Documents documents_of(const std::shared_ptr<const InputFile>& file,
                       const DocumentFormat& form,
                       DocumentParts parts,
                       std::size_t block) {
  Documents read;
  try {
    DocumentReader reader(
        file, form, {.parts = parts, .longest = 2 * most_unpacked, .block = block});
    for (Document document; reader.next(document);) {
      reader.take_text(document);
      reader.place_of(document);
      read.texts.push_back(std::move(document.text));
    }
  } catch (const DataError& error) {
    read.trouble = error.what();
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
  // Where a file is damaged the number of documents before that place depends on the blocks.
  const Documents again = documents_of(file, form, parts, 61);
  expect(whole.trouble.empty() == again.trouble.empty(), "a file is damaged in small blocks alone");
  if (whole.trouble.empty() && parts == DocumentParts::none)
    expect(whole.texts == again.texts, "a file has other documents in small blocks");
  if (!whole.trouble.empty()) throw DataError("{}", whole.trouble);
  read_characters(file, form);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
