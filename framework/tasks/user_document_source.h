// Training data: documents that the program gives, as parallel streams.
#pragma once

#include <memory>

#include "framework/core/device.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/data/corpus/user_documents.h"
#include "framework/data/source.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

struct SuppliedReading {
  DocumentStreamFactory open;
  StreamLayout layout;
  std::int64_t vocabulary = 0;
  ProcessMesh mesh = {};
  Device host = Device::cpu();
};

// Each stream is documents one after another. The documents come in one order, and a stream that
// has too few tokens left for a segment and its last target takes the next one; of a step the
// streams take in their order. So what a stream holds is known on every layout. Every rank goes
// through all documents, and keeps those of its streams. The documents may end: then those of the
// next epoch are opened.
//
// A checkpoint keeps of each stream its last document and the place in it. To go on from there the
// documents are opened at the first of those that are not read to their end.
//
// Its batches are collective over the mesh. They throw DataError for an id outside of the
// vocabulary, for an epoch without a token, on every rank where ranks are given different
// documents, and on going on where a document is not as long as it was; EndOfDocuments on every
// rank where there are no more, and then the source is saved as it was before that batch; and what
// the documents throw. Throws ConfigurationError when the data ranks do not divide the streams.
std::unique_ptr<BatchSource> user_document_source(SuppliedReading reading);

}  // namespace longspan
