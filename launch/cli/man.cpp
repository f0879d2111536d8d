// longspan man: manual pages of the program and its commands.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "framework/core/quote.h"
#include "framework/core/system.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/command_table.h"
#include "launch/cli/version.h"

namespace longspan {

namespace {

// Returns the name of a command's page: "longspan-train", for the file longspan-train.1.
std::string page_name(const CommandEntry& command) {
  return command.words.empty() ? "longspan" : "longspan-" + command.words.front();
}

// Escapes text for roff: backslashes and hyphens are literal, and no line is a request.
std::string roff(std::string_view text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '~')
      result += "\\(ti";
    else if (c == '^')
      result += "\\(ha";
    else if (c == '`')
      result += "\\(ga";
    else if (c == '\'')
      result += "\\(aq";
    else
      result += c;
    begins = c == '\n';
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

// Formats each line of the text as a paragraph.
std::string paragraphs(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) result += (result.empty() ? "" : ".PP\n") + roff(line) + "\n";
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return result;
}

std::string section(std::string_view name, const std::string& content) {
  return content.empty() ? "" : fmt::format(".SH {}\n{}", name, content);
}

std::string as_written(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.empty() ? "" : ".nf\n" + roff(text) + "\n.fi\n";
}

// Returns, for example, "longspan train [options] CONFIG".
std::string synopsis(const CommandEntry& command) {
  std::string text = bold(command.words.empty() ? "longspan" : "longspan " + command.name());
  if (!command.options.empty()) text += " [" + italic("options") + "]";
  if (!command.commands.empty()) text += " " + italic("command") + " ...";
  for (const CommandOption& place : command.places) {
    const std::string name = italic(place.names.front()) + (place.repeats ? " ..." : "");
    text += place.required ? " " + name : " [" + name + "]";
  }
  return text + "\n";
}

std::string described(const CommandOption& option, bool is_place) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "" : ", ") + (is_place ? italic(name) : bold(name));
  if (!is_place && !option.value.empty()) names += " " + italic(option.value);
  std::string meaning = roff(option.meaning);
  if (!option.choices.empty()) {
    const char* const heading = meaning.empty()          ? "choices"
                                : meaning.ends_with('.') ? " Choices"
                                                         : "; choices";
    meaning += roff(fmt::format("{}: {}", heading, fmt::join(option.choices, ", ")));
  }
  return ".TP\n" + names + "\n" + meaning + "\n";
}

std::string options_of(const CommandEntry& command) {
  std::string text;
  for (const CommandOption& place : command.places) text += described(place, true);
  for (const CommandOption& option : command.options) text += described(option, false);
  return text;
}

// Returns the end of a command's help, without its heading.
std::string examples_of(const CommandEntry& command) {
  std::string_view footer = command.footer;
  constexpr std::string_view heading = "Examples:\n";
  if (!footer.starts_with(heading)) return "";
  footer.remove_prefix(heading.size());
  return std::string(footer.substr(0, footer.find(exit_codes)));
}

// Lists the subcommands: of the program by their pages, of a command with their options.
std::string commands_of(const CommandEntry& command) {
  std::string text;
  for (const CommandEntry& below : command.commands) {
    const std::string_view first = summary_of(below.description);
    if (command.words.empty())
      text += ".TP\n" + bold(page_name(below)) + "(1)\n" + roff(first) + "\n";
    else
      text += ".SS " + roff(below.name()) + "\n" + roff(first) + "\n.PP\n" + synopsis(below) +
              options_of(below);
  }
  return text;
}

std::string see_also(const CommandEntry& program, const CommandEntry& command) {
  std::vector<std::string> pages;
  if (!command.words.empty()) pages.push_back(bold("longspan") + "(1)");
  for (const CommandEntry& other : program.commands)
    if (&other != &command) pages.push_back(bold(page_name(other)) + "(1)");
  return fmt::format("{}\n", fmt::join(pages, ",\n"));
}

// Returns the page of the program, or of a command with its subcommands. `version`: "0.1.0".
std::string man_page(const CommandEntry& program,
                     const CommandEntry& command,
                     std::string_view version) {
  std::string title = page_name(command);
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return fmt::format(
             ".\\\" Made by: longspan man{}{}\n.TH {} 1 \"\" \"longspan {}\" \"Longspan\"\n",
             command.words.empty() ? "" : " ",
             command.name(),
             roff(title),
             roff(version)) +
         section(
             "NAME",
             roff(page_name(command)) + " \\- " + roff(summary_of(command.description)) + "\n") +
         section("SYNOPSIS", synopsis(command)) +
         section("DESCRIPTION", paragraphs(command.description)) +
         section("OPTIONS", options_of(command)) + section("COMMANDS", commands_of(command)) +
         section("EXAMPLES", as_written(examples_of(command))) +
         section(
             "EXIT STATUS",
             paragraphs(
                 std::string_view(exit_codes).substr(std::string_view("Exit codes: ").size()))) +
         section("SEE ALSO", see_also(program, command));
}

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
