#include <fmt/chrono.h>
#include <sys/stat.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <memory>

#include "checkpoints/checkpoint.h"
#include "framework/core/format.h"
#include "framework/core/quote.h"
#include "framework/training_loop/best_step.h"
#include "launch/cli/command.h"
#include "launch/cli/loaded_run.h"

namespace longspan {
namespace {

struct InspectArguments {
  std::string path;
  bool tensors = false;
  bool configuration = false;
};

std::string value_text(const Scalars::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

// Returns when it was saved, or the time of its manifest for an older checkpoint without a date.
std::string date_text(const Checkpoint& checkpoint) {
  if (const std::int64_t seconds = checkpoint.info().saved_at; seconds > 0)
    return fmt::format("  saved at {:%Y-%m-%d %H:%M:%S} UTC\n", fmt::gmtime(seconds));
  struct stat status {};
  if (::stat((checkpoint.path() / "manifest.json").c_str(), &status) != 0) return "";
  return fmt::format("  manifest modified at {:%Y-%m-%d %H:%M:%S} UTC\n",
                     fmt::gmtime(status.st_mtime));
}

std::string losses_text(const Checkpoint& checkpoint) {
  const SavedLosses losses = SavedLosses::of(checkpoint.scalars());
  std::string text;
  if (losses.loss) text += fmt::format("  loss {:.4f} nats per token\n", *losses.loss);
  if (const auto& validation = losses.validation)
    text += fmt::format("  validation loss {:.4f}{}{}\n",
                        validation->loss,
                        validation->bits_per_byte
                            ? fmt::format(", {:.4f} bits per byte", *validation->bits_per_byte)
                            : "",
                        validation->step == checkpoint.info().step
                            ? ""
                            : fmt::format(", at step {}", validation->step));
  if (const auto best = best_step(checkpoint.scalars()))
    text += fmt::format("  best {} {:.4f}, at step {}\n", best->figure, best->value, best->step);
  return text;
}

std::string summary(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  std::string text = fmt::format(
      "{}\n  run {}, step {}\n{}{}  saved with data {} x context {} x tensor {}\n  {} in {}\n",
      checkpoint.path().string(),
      truncated(info.run_id),
      info.step,
      date_text(checkpoint),
      losses_text(checkpoint),
      info.layout.data,
      info.layout.context,
      info.layout.tensor,
      format_bytes(static_cast<double>(checkpoint.file_bytes())),
      pluralize(std::ssize(checkpoint.tensors()), "tensor"));

  struct Group {
    std::int64_t tensors = 0;
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::string, Group> groups;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    Group& group = groups[tensor.name.substr(0, tensor.name.find('/'))];
    ++group.tensors;
    group.elements += tensor.shape.elements();
    group.bytes += tensor.bytes();
  }
  for (const auto& [name, group] : groups) {
    text += fmt::format("    {:<24} {:>14} {:>23} {:>12}\n",
                        name,
                        pluralize(group.tensors, "tensor"),
                        pluralize(group.elements, "element"),
                        format_bytes(static_cast<double>(group.bytes)));
  }
  for (const auto& [name, value] : checkpoint.scalars().values()) {
    text += fmt::format("    {} = {}\n", truncated(name), value_text(value));
  }
  return text;
}

std::string tensor_table(const Checkpoint& checkpoint) {
  std::string text;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    text += fmt::format("{:<56} {:<4} {:<20} {:>10} {:>12}\n",
                        tensor.name,
                        name_of(tensor.dtype),
                        tensor.shape.to_string(),
                        pluralize(tensor.pieces, "piece"),
                        format_bytes(static_cast<double>(tensor.bytes())));
  }
  return text;
}

ExitCode run_inspect(const InspectArguments& arguments, Session& session) {
  const Checkpoint checkpoint = Checkpoint::open(checkpoints_at(arguments.path).back());
  if (arguments.configuration) {
    print(session, checkpoint.info().configuration);
    return ExitCode::ok;
  }
  print(session, summary(checkpoint));
  if (arguments.tensors) print(session, tensor_table(checkpoint));
  return ExitCode::ok;
}

}  // namespace

Command inspect_command() {
  return {"inspect",
          "Show the contents of a checkpoint",
          "  longspan inspect runs/quickstart\n"
          "  longspan inspect runs/quickstart/checkpoints/step-000000900 --tensors\n"
          "  longspan inspect runs/quickstart --config > again.yaml\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<InspectArguments>();
            app.add_option("PATH",
                           arguments->path,
                           "checkpoint, or run directory for its newest checkpoint")
                ->required();
            app.add_flag("--tensors",
                         arguments->tensors,
                         "list of all tensors with dtype, shape and size, after the summary");
            app.add_flag("--config",
                         arguments->configuration,
                         "configuration of the run that wrote the checkpoint, instead of the "
                         "summary");
            return [arguments](Session& session) { return run_inspect(*arguments, session); };
          }};
}

}  // namespace longspan
