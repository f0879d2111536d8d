#include "framework/tokenizers/aligned_text.h"

#include "framework/core/error.h"

namespace longspan {

AlignedText::AlignedText(const TextPiece& piece)
    : text_(piece.text), begin_(piece.begin), base_(piece.base) {
  if (piece.ends != nullptr) ends_.assign(piece.ends, piece.ends + piece.text.size());
}

AlignedWriter::AlignedWriter(const TextPiece& from)
    : from_(from), to_(TextPiece{{}, from.begin, nullptr, from.begin}) {
  const std::int64_t bytes = from.end_of(from.text.size()) - from.begin;
  if (bytes > UINT32_MAX)
    throw DataError("a chunk of {} bytes, which the tokenizer normalizes as a whole, is too long",
                    bytes);
  to_.text_.reserve(from.text.size());
  to_.ends_.reserve(from.text.size());
}

void AlignedWriter::copy_span(std::size_t begin, std::size_t end) {
  // Excludes previously removed text.
  if (to_.text_.empty()) to_.begin_ = from_.end_of(begin);
  to_.text_.append(from_.text.substr(begin, end - begin));
  for (std::size_t i = begin; i < end; ++i) to_.ends_.push_back(place(i + 1));
}

void AlignedWriter::put(std::string_view text, std::size_t end) {
  to_.text_.append(text);
  to_.ends_.insert(to_.ends_.end(), text.size(), place(end));
}

AlignedText AlignedWriter::take() && { return std::move(to_); }

}  // namespace longspan
