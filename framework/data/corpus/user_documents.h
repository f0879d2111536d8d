// Documents that a program provides through the API instead of files.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "framework/core/error.h"

namespace longspan {

struct DocumentCursor {
  std::int64_t epoch = 0;     // completed passes over the documents
  std::int64_t document = 0;  // index in the epoch, from 0

  friend auto operator<=>(const DocumentCursor&, const DocumentCursor&) = default;
};

// Returns the ids of the next document, or nothing at the end of the epoch.
using DocumentStream = std::function<std::optional<std::vector<std::int64_t>>()>;

// Returns a stream that starts at this document. It must return equal documents on every rank and
// for every call with equal arguments. Data that can be read only once returns an empty function
// for the epoch after the last.
using DocumentStreamFactory = std::function<DocumentStream(const DocumentCursor&)>;

// Thrown when there are no more documents.
class EndOfDocuments : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace longspan
