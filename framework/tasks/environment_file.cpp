#include "framework/tasks/environment_file.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/rank_zero.h"

namespace longspan {
namespace {

// Episodes per row, if the number of batches is not given.
constexpr std::int64_t usual_episodes = 8;
constexpr std::int64_t max_environment_bytes = std::int64_t{64} << 20;

}  // namespace

Environment read_environment(const ConfigPath& path, const Communicator& all) {
  const std::string text =
      run_on_rank_zero(all, path, 0, {}, [path = ConfigPath(path)](const ProgressCallback&) {
        std::string found = open_plain_text(path)->text(max_environment_bytes);
        parse_environment(found, path.describe());  // parsing on rank 0 reports errors once
        return found;
      });
  return parse_environment(text, path.describe());
}

void require_same_actions(const LabelSet& learnt,
                          const Environment& environment,
                          const std::string& place) {
  if (learnt == LabelSet(environment.actions)) return;
  throw DataError("{}: expected the training actions {}, found {} in a {}",
                  place,
                  fmt::join(learnt.names(), ", "),
                  fmt::join(environment.actions, ", "),
                  environment.description);
}

std::int64_t episodes_of(const Environment& environment, std::int64_t segment, std::int64_t most) {
  const std::int64_t segments = (environment.steps + segment - 1) / segment;
  return most == 0 ? usual_episodes : (most + segments - 1) / segments;
}

}  // namespace longspan
