#include "framework/runs/run_parts.h"

#include <chrono>

#include "framework/data/text_files.h"
#include "framework/runs/memory_advice.h"
#include "framework/runs/run_device.h"
#include "framework/runs/threads.h"

namespace longspan {

namespace {

Corpus open_text(const Settings& settings,
                 const NamedPath& path,
                 const Tokenizer& tokenizer,
                 const ProcessMesh& mesh,
                 const ScanListener& listener) {
  const auto tokens = token_directory(settings.data, settings.run.directory);
  return open_corpus(path, tokenizer, tokens, mesh.world, listener);
}

}  // namespace

ProcessMesh make_mesh(Session& session, const Settings& settings) {
  session.set_time_limit(std::chrono::duration<double>(settings.run.time_limit));
  set_threads(settings.run.threads, session.local_size());
  const Communicator& world = session.world();
  const ProcessMesh mesh(world, mesh_shape(settings.parallel, world.size()));
  require_divisible(settings, mesh.shape);
  return mesh;
}

Corpus open_training(const Settings& settings,
                     const Tokenizer& tokenizer,
                     const ProcessMesh& mesh,
                     const ScanListener& listener) {
  return open_text(settings, settings.data.train, tokenizer, mesh, listener);
}

BatchLoader make_loader(const Settings& settings,
                        const Corpus& corpus,
                        const ProcessMesh& mesh,
                        const Device& device) {
  return BatchLoader(
      std::make_unique<StreamReader>(
          corpus, settings.data.layout(), mesh.data_coordinate(), mesh.data.size(), device),
      static_cast<std::size_t>(settings.data.read_ahead));
}

std::optional<Corpus> open_validation(const Settings& settings,
                                      const Tokenizer& tokenizer,
                                      const ProcessMesh& mesh,
                                      const ScanListener& listener) {
  if (settings.data.validation.empty()) return std::nullopt;
  Corpus corpus = open_text(settings, settings.data.validation, tokenizer, mesh, listener);
  require_pairs(corpus);
  return corpus;
}

std::unique_ptr<Model> make_model(const Session& session,
                                  const Settings& settings,
                                  const Reconfigure& reconfigure,
                                  const Tokenizer& tokenizer,
                                  const ProcessMesh& mesh,
                                  const Device& device) {
  require_fits(settings, mesh, device, session.local_size(), tokenizer.vocabulary(), reconfigure);
  return settings.make_model(model_setting(settings, tokenizer.vocabulary(), mesh, device));
}

Log open_log(Session& session,
             const Console& console,
             const RunDirectory& directory,
             LogLevel least) {
  session.set_listener(
      [file = directory.log()](const char* sentence) { append_error(file, sentence); });
  if (session.world().rank() != 0) return {};
  return Log(console, directory.log(), least);
}

}  // namespace longspan
