#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <memory>

#include "checkpoints/checkpoint.h"
#include "framework/core/byte_text.h"
#include "launch/checkpoint_path.h"
#include "launch/command.h"

namespace longspan {
namespace {

struct Arguments {
  std::string path;
  bool tensors = false;
  bool configuration = false;
};

std::string value_text(const Scalars::Value& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

std::string summary(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  std::string text = fmt::format(
      "{}\n  run {}, step {}\n  saved on data {} x context {} x tensor {}\n  {} in {} tensors\n",
      checkpoint.path().string(),
      info.run_id,
      info.step,
      info.layout.data,
      info.layout.context,
      info.layout.tensor,
      byte_text(static_cast<double>(checkpoint.file_bytes())),
      checkpoint.tensors().size());

  struct Group {
    std::size_t tensors = 0;
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
    text += fmt::format("    {:<24} {:>6} tensors {:>14} elements {:>12}\n",
                        name,
                        group.tensors,
                        group.elements,
                        byte_text(static_cast<double>(group.bytes)));
  }
  for (const auto& [name, value] : checkpoint.scalars().values()) {
    text += fmt::format("    {} = {}\n", name, value_text(value));
  }
  return text;
}

std::string tensor_table(const Checkpoint& checkpoint) {
  std::string text;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    text += fmt::format("{:<56} {:<4} {:<20} {:>3} pieces {:>12}\n",
                        tensor.name,
                        name_of(tensor.dtype),
                        tensor.shape.to_string(),
                        tensor.pieces,
                        byte_text(static_cast<double>(tensor.bytes())));
  }
  return text;
}

ExitCode run(const Arguments& arguments, Session& session) {
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
          "Show what a checkpoint holds",
          "  longspan inspect runs/quickstart\n"
          "  longspan inspect runs/quickstart/checkpoints/step-000000500 --tensors\n"
          "  longspan inspect runs/quickstart --configuration > again.yaml\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<Arguments>();
            app.add_option("PATH",
                           arguments->path,
                           "a checkpoint, or a run: its newest checkpoint is shown")
                ->required();
            app.add_flag("--tensors", arguments->tensors, "list every tensor");
            app.add_flag("--configuration",
                         arguments->configuration,
                         "print only the configuration of the run that wrote it");
            return [arguments](Session& session) { return run(*arguments, session); };
          }};
}

}  // namespace longspan
