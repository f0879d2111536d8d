// Which words of a pair of lines belong together: a line of "i-j" for each pair of lines.
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

// A token of the source and one of the target, counted from 0.
struct AlignmentLink {
  std::int64_t source = 0;
  std::int64_t target = 0;
  friend bool operator==(const AlignmentLink&, const AlignmentLink&) = default;
};

// Of "0-0 1-2 3-2"; none of an empty line. Throws DataError, which begins with `place`, for
// anything else and for a link beyond `lengths`.
std::vector<AlignmentLink> parse_alignment(std::string_view line,
                                           const Lengths& lengths,
                                           std::string_view place);

// A file of such lines. It is read once, by rank 0; 8 bytes a line are kept.
class AlignmentFile {
 public:
  // Collective. `lengths`: of a pair, counted from 0. Throws DataError for lines that
  // parse_alignment refuses and where there are not as many as `pairs`.
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
