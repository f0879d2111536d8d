// Lines of links "i-j". After 0x1E: source and target of a parallel corpus with these links.
#include <limits>

#include "framework/data/examples/parallel_examples.h"
#include "tests/fuzz/example_rows.h"
#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzzing {
namespace {

void read_links(std::string_view lines) {
  constexpr Lengths lengths[] = {
      {0, 0}, {3, 5}, {std::numeric_limits<std::int64_t>::max() / 2, 1000}};
  for (const Lengths& length : lengths)
    for (std::string_view rest = lines; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      is_read([&] {
        for (const AlignmentLink& link :
             parse_alignment(rest.substr(0, end), length, "links.txt:1"))
          expect(link.source >= 0 && link.source < length.source && link.target >= 0 &&
                     link.target < length.target,
                 "a link leads beyond its lines");
      });
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

void read_files(std::string_view bytes) {
  static const InputFolder folder;
  const std::string_view links = take_part(bytes);
  read_links(links);
  if (bytes.empty()) return;
  const std::string source = folder.put("source.txt", take_part(bytes));
  const std::string target = folder.put("target.txt", take_part(bytes));
  const std::string path = links.empty() ? "" : folder.put("links.txt", links);
  // With the default tokenizer each byte is a word.
  const auto pairs = open_parallel_corpus(source, target, Tokenizer(), Tokenizer(), {}, {}, path);
  read_rows(*pairs);
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_files);
}
