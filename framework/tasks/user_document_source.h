// Documents that a program provides through the API instead of files, and training batches from
// them, as parallel streams.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/error.h"
#include "framework/data/batch.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/distributed/process_mesh.h"

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

struct SuppliedReading {
  DocumentStreamFactory open;
  StreamLayout layout;
  std::int64_t vocabulary = 0;
  ProcessMesh mesh = {};
  Device host = Device::cpu();
};

// Each stream is a sequence of documents. Documents arrive in one order: a stream with too few
// tokens for a segment and its last target takes the next one. Within a step, streams take
// documents in stream order. The content of a stream is therefore independent of the layout. Every
// rank reads all documents and retains those of its streams. When the documents end, those of the
// next epoch are opened.
//
// A checkpoint has the last document of each stream and the position in it. To resume, the
// documents are opened at the first one that is not fully read.
//
// Batches are collective over the mesh. They throw DataError for an id outside the vocabulary and
// for an epoch without tokens. They also throw DataError where ranks receive different documents
// (on every rank), and when a document's length has changed on resume. At the end they throw
// EndOfDocuments on every rank, and the source is saved as before that batch. Exceptions of the
// documents propagate. Throws ConfigurationError if the data ranks do not divide the streams.
std::unique_ptr<BatchSource> user_document_source(SuppliedReading reading);

}  // namespace longspan
