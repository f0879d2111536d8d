// Documents that a program which trains gives itself, in place of files.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "framework/core/error.h"

namespace longspan {

struct DocumentCursor {
  std::int64_t epoch = 0;     // complete passes over the documents before it
  std::int64_t document = 0;  // its number in the epoch, from 0 on

  friend auto operator<=>(const DocumentCursor&, const DocumentCursor&) = default;
};

// The ids of the next document; nothing at the end of the epoch.
using DocumentStream = std::function<std::optional<std::vector<std::int64_t>>()>;

// Begins with the document of that place. It is to give the same documents on every rank, and
// whenever it is asked for the same place. What can be read only once gives an empty function for
// the epoch behind its last.
using DocumentStreamFactory = std::function<DocumentStream(const DocumentCursor&)>;

// There are no more documents.
class EndOfDocuments : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace longspan
