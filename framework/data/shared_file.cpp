#include "framework/data/shared_file.h"

#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/rank_zero.h"

namespace longspan {

SharedFile open_shared(const ConfigPath& path, const Communicator& all) {
  return share(open_plain_text(path), all);
}

SharedFile share(SharedFile file, const Communicator& all) {
  require_same_corpus(Corpus(file, Tokenizer()), all);
  return file;
}

std::string scan_shared(
    const SharedFile& file,
    const Communicator& all,
    const ProgressCallback& listener,
    std::function<std::string(const InputFile&, const ProgressCallback&)> work) {
  return run_on_rank_zero(
      all,
      file->path(),
      file->size(),
      listener,
      [file, work = std::move(work)](const ProgressCallback& heard) { return work(*file, heard); });
}

}  // namespace longspan
