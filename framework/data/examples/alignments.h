// Word alignments of sentence pairs: one line of "i-j" links for each pair of lines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/examples/example_index.h"
#include "framework/data/examples/examples.h"
#include "framework/data/shared_file.h"

namespace longspan {

// A source token and a target token, counted from 0.
struct AlignmentLink {
  std::int64_t source = 0;
  std::int64_t target = 0;
  friend bool operator==(const AlignmentLink&, const AlignmentLink&) = default;
};

// Parses "0-0 1-2 3-2"; an empty line has no links. Throws DataError, prefixed with `place`, for
// other text and for a link beyond `lengths`.
std::vector<AlignmentLink> parse_alignment(std::string_view line,
                                           const Lengths& lengths,
                                           std::string_view place);

// A file of such lines. Rank 0 reads it once. It takes 8 bytes of memory a line.
class AlignmentFile {
 public:
  // `lengths`: lengths of a pair by index, from 0. Throws DataError as parse_alignment, and when
  // the number of lines is not `pairs`. Collective.
  AlignmentFile(const ConfigPath& path,
                std::int64_t pairs,
                const std::function<Lengths(std::int64_t pair)>& lengths,
                const Communicator& all,
                const ProgressCallback& listener);

  std::vector<AlignmentLink> read(std::int64_t pair, const Lengths& lengths) const;

 private:
  SharedFile file_;
  ExampleIndex index_;
};

}  // namespace longspan
