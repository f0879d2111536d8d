#include "framework/data/corpus/document_list.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

DocumentList::DocumentList(Corpus corpus, std::int64_t piece)
    : corpus_(std::move(corpus)), piece_(piece) {
  require(piece >= 1, "expected chunks of at least 1 token, found {}", piece);
  for (const CorpusFile& file : corpus_.files())
    firsts_.push_back(firsts_.back() + (file.documents() > 0
                                            ? file.documents()
                                            : (file.tokens() + piece - 1) / piece));
}

Range DocumentList::at(std::int64_t document) const {
  require(document >= 0 && document < count(),
          "document {} is out of range ({} documents)",
          document,
          count());
  const auto after = std::ranges::upper_bound(firsts_, document);
  const auto index = static_cast<std::size_t>(after - firsts_.begin()) - 1;
  const CorpusFile& file = corpus_.files()[index];
  const std::int64_t first = corpus_.file_range(index).begin;
  const std::int64_t own = document - firsts_[index];
  if (file.documents() > 0)
    return {first + file.document_begin(own), first + file.document_begin(own + 1)};
  return {first + own * piece_, first + std::min((own + 1) * piece_, file.tokens())};
}

std::int64_t DocumentList::document_of(std::int64_t token) const {
  require(token >= 0 && token < corpus_.tokens(),
          "token {} is out of range ({} tokens)",
          token,
          corpus_.tokens());
  // Binary search for the last document that does not begin after the token.
  std::int64_t low = 0, high = count();
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (at(middle).begin <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace longspan
