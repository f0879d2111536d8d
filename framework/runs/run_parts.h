// The parts of a training run, in the order in which they need one another. All are collective and
// throw the same on every rank.
#pragma once

#include <memory>
#include <optional>

#include "framework/comm/session.h"
#include "framework/planning/plan.h"
#include "framework/runs/log.h"
#include "framework/runs/run_directory.h"
#include "framework/settings/settings.h"
#include "framework/tasks/task.h"

namespace longspan {

// Also sets the threads and the time limit of the run. Throws ConfigurationError where the batch
// does not divide over the mesh.
ProcessMesh make_mesh(Session& session, const Settings& settings);

// Silent on all ranks but one. The sentence that ends a failed run is in the file too, from
// whichever rank it comes.
Log open_log(Session& session,
             const Console& console,
             const RunDirectory& directory,
             LogLevel least);

// Throws DataError, what the listener throws, and ConfigurationError where the task learns from no
// documents that it is given.
std::unique_ptr<Task> open_task(const Settings& settings,
                                const ProcessMesh& mesh,
                                const Device& device,
                                const ScanListener& listener,
                                const OpenDocuments& documents = {});

// Refuses what the memory cannot hold, before anything of it is allocated: throws
// ConfigurationError.
std::unique_ptr<Model> make_model(const Session& session,
                                  const Settings& settings,
                                  const Reconfigure& reconfigure,
                                  const ModelIds& ids,
                                  const ProcessMesh& mesh,
                                  const Device& device);

}  // namespace longspan
