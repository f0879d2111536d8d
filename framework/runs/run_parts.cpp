#include "framework/runs/run_parts.h"

#include <chrono>

#include "framework/runs/memory_advice.h"
#include "framework/runs/run_device.h"
#include "framework/runs/threads.h"

namespace longspan {

ProcessMesh make_mesh(Session& session, const Settings& settings) {
  session.set_time_limit(std::chrono::duration<double>(settings.run.time_limit));
  set_threads(settings.run.threads, session.local_size());
  const Communicator& world = session.world();
  const ProcessMesh mesh(world, mesh_shape(settings.parallel, world.size()));
  require_divisible(settings, mesh.shape);
  return mesh;
}

std::unique_ptr<Task> open_task(const Settings& settings,
                                const ProcessMesh& mesh,
                                const Device& device,
                                const ScanListener& listener,
                                const OpenDocuments& documents) {
  if (documents && !settings.task_kind().takes_documents)
    throw ConfigurationError(
        "run.task is {}, which learns from files; documents that a program gives are for "
        "language_model",
        settings.task);
  return settings.task_kind().open({.data = settings.data,
                                    .run = settings.run.directory.text(),
                                    .mesh = mesh,
                                    .host = device.host(),
                                    .seed = static_cast<std::uint64_t>(settings.run.seed),
                                    .parts = settings.training.accumulation,
                                    .validation_batches = settings.training.validation_batches,
                                    .validation_decoded = settings.training.validation_decoded,
                                    .listener = listener,
                                    .documents = documents});
}

std::unique_ptr<Model> make_model(const Session& session,
                                  const Settings& settings,
                                  const Reconfigure& reconfigure,
                                  const ModelIds& ids,
                                  const ProcessMesh& mesh,
                                  const Device& device) {
  require_fits(settings, mesh, device, session.local_size(), ids, reconfigure);
  return settings.make_model(model_setting(settings, ids, mesh, device));
}

Log open_log(Session& session,
             const Console& console,
             const RunDirectory& directory,
             LogLevel least) {
  session.set_listener([file = directory.log()](const char* sentence) {
    append_to_log(file, LogLevel::error, sentence);
  });
  if (session.world().rank() != 0) return {};
  return Log(console, directory.log(), least);
}

}  // namespace longspan
