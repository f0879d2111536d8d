// longspan man: manual pages of the program and its commands.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "framework/core/quote.h"
#include "framework/core/system_message.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/man_page.h"
#include "launch/cli/version.h"

namespace longspan {
namespace {

struct ManArguments {
  std::string command;
  std::string folder;
};

// Returns "0.1.0": the second word of the output of --version.
std::string version() {
  const std::string text = version_text();
  const std::size_t begin = text.find(' ') + 1;
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

const CommandEntry& find_entry(const CommandEntry& program, const std::string& name) {
  if (name.empty()) return program;
  const auto found = std::ranges::find(program.commands, name, &CommandEntry::name);
  if (found != program.commands.end()) return *found;
  std::vector<std::string> names;
  for (const CommandEntry& command : program.commands) names.push_back(command.name());
  const std::string near = closest_match(name, names);
  throw ConfigurationError("longspan man: unknown command {} (choices: {}){}",
                           quote(name),
                           fmt::join(names, ", "),
                           near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
}

void write_man_page(const std::filesystem::path& file, const std::string& page) {
  std::ofstream stream(file, std::ios::binary);
  stream << page;
  stream.close();
  if (!stream) throw Failure("{}: cannot be written: {}", file.string(), errno_message());
}

// Writes the pages of all commands to a folder, which is created.
std::string write_pages(const CommandEntry& program, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure("{}: cannot be created: {}", folder.string(), error.message());
  write_man_page(folder / (page_name(program) + ".1"), man_page(program, program, version()));
  for (const CommandEntry& command : program.commands)
    write_man_page(folder / (page_name(command) + ".1"), man_page(program, command, version()));
  return "";
}

}  // namespace

Command man_command() {
  return {.name = "man",
          .description = "Print the manual page of longspan or of one of its commands, in roff",
          .examples =
              "  longspan man train | man -l -\n"
              "  longspan man --output-dir ~/.local/share/man/man1\n",
          .bind = {},
          .bind_text = [](CLI::App& app) -> TextAction {
            auto arguments = std::make_shared<ManArguments>();
            app.add_option(
                   "COMMAND", arguments->command, "command of the page (default: longspan itself)")
                ->type_name("COMMAND")
                ->check(not_empty_text());
            app.add_option("--output-dir",
                           arguments->folder,
                           "directory for the pages of all commands, one file each, instead of "
                           "standard output")
                ->type_name("FOLDER")
                ->check(not_empty_text());
            return [arguments](const CLI::App& root) -> std::string {
              const CommandEntry program = command_table(root);
              if (arguments->folder.empty())
                return man_page(program, find_entry(program, arguments->command), version());
              if (!arguments->command.empty())
                throw ConfigurationError("longspan man: --output-dir cannot be combined with {}",
                                         quote(arguments->command));
              return write_pages(program, arguments->folder);
            };
          }};
}

}  // namespace longspan
