#include "framework/train/settings.h"

namespace longspan {

ModelSetting model_setting(const Settings& settings,
                           std::int64_t vocabulary,
                           const ProcessMesh& mesh,
                           const Device& device) {
  return {.vocabulary = vocabulary,
          .segment = settings.data.segment,
          .compute = settings.precision.compute,
          .device = device,
          .mesh = mesh,
          .random = Random(static_cast<std::uint64_t>(settings.run.seed)).child("weights"),
          .memory = settings.memory,
          .sharing = {.zero = static_cast<int>(settings.parallel.zero),
                      .bucket_megabytes = settings.training.bucket_megabytes}};
}

void require_parts(const Settings& settings, const MeshShape& mesh) {
  const std::int64_t streams = settings.data.batch / mesh.data;
  if (streams % settings.training.accumulation != 0)
    throw ConfigurationError(
        "training.accumulation is {}, which does not divide the {} streams of a data rank "
        "(data.batch {} over {} data ranks)",
        settings.training.accumulation,
        streams,
        settings.data.batch,
        mesh.data);
}

}  // namespace longspan
