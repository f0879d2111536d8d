// The option table as text: the resolved configuration, the help and the reference page.
#include <fmt/format.h>

#include <algorithm>

#include "framework/core/decimal.h"
#include "framework/core/quote.h"
#include "framework/options/options.h"

namespace longspan {
namespace {

// A file name may contain newlines; a comment must stay on one line.
std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return text;
}

std::string details(const OptionDescription& option) {
  std::string text = option.type;
  // The type of a choice is omitted as self-evident.
  if (!option.allowed.empty()) {
    text = option.type == "string" && option.allowed != "not empty"
               ? option.allowed
               : fmt::format("{}, {}", option.type, option.allowed);
  }
  text += option.default_value.empty() ? "; required" : "; default " + option.default_value;
  if (!option.set_to.empty())
    text += fmt::format("; current value {}, set at {}", option.set_to, on_one_line(option.set_at));
  return text;
}

// Singular, plural and with an article.
struct WordNames {
  const char* one;
  const char* many;
  const char* with_article;
};

WordNames names_of(WordType type) {
  switch (type) {
    case WordType::integer:
      return {"integer", "integers", "an integer"};
    case WordType::number:
      return {"number", "numbers", "a number"};
    case WordType::boolean:
      return {"true or false", "true or false", "true or false"};
    case WordType::text:
      return {"string", "strings", "a string"};
    case WordType::path:
      return {"path", "paths", "a path"};
  }
  return {};
}

std::string in_table_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

}  // namespace

std::string type_text(const ValueForm& form) {
  const WordNames names = names_of(form.word);
  std::string text = form.is_list ? fmt::format("list of {}", names.many) : names.one;
  if (form.is_weighted) text = fmt::format("{} or {}", names.one, text);
  return form.is_optional ? text + " or none" : text;
}

std::string type_text_with_article(const ValueForm& form) {
  const WordNames names = names_of(form.word);
  if (form.is_weighted)
    return fmt::format(
        "{}, or a list of {} or of {{path: PATH, weight: NUMBER}}", names.with_article, names.many);
  const std::string text =
      form.is_list ? fmt::format("a list of {}", names.many) : names.with_article;
  return form.is_optional ? "none or " + text : text;
}

std::string allowed_text(const Constraint& rule, bool is_list) {
  std::vector<std::string> parts;
  if (rule.lower && rule.upper && !rule.lower_open && !rule.upper_open) {
    parts.push_back(
        fmt::format("{} to {}", format_number(*rule.lower), format_number(*rule.upper)));
  } else {
    if (rule.lower) {
      const char* word = rule.lower_open ? "above" : "at least";
      parts.push_back(fmt::format("{} {}", word, format_number(*rule.lower)));
    }
    if (rule.upper) {
      const char* word = rule.upper_open ? "below" : "at most";
      parts.push_back(fmt::format("{} {}", word, format_number(*rule.upper)));
    }
  }
  if (rule.multiple) parts.push_back(fmt::format("a multiple of {}", *rule.multiple));
  if (!rule.choices.empty()) parts.push_back(join_or(rule.choices));
  std::string text = fmt::format("{}", fmt::join(parts, " and "));
  if (is_list && !text.empty()) text = "each " + text;
  if (rule.not_empty) text += text.empty() ? "not empty" : ", not empty";
  return text;
}

std::string rules_text(const Constraint& rule) {
  std::string text;
  for (const Condition& condition : rule.only_with)
    text += (text.empty() ? ". Only with " : " and ") + condition.text();
  std::string last = ".";
  for (const Requirement& requirement : rule.requirements) {
    const std::string beginning = requirement.beginning();
    text += (beginning == last ? " and " : fmt::format(". {} ", beginning)) +
            requirement.condition.text();
    last = beginning;
  }
  return text;
}

std::string OptionTable::resolved() const {
  constexpr std::size_t comment_column = 44;
  std::string yaml;
  std::vector<std::string> open;  // sections that contain the last line
  const std::vector<OptionValue> all = values();
  for (const OptionValue& value : all) {
    const auto path = split(value.key, '.');
    const std::size_t depth = path.size() - 1;
    std::size_t common = 0;
    while (common < std::min(open.size(), depth) && open[common] == path[common]) ++common;
    for (std::size_t level = common; level < depth; ++level) {
      if (level == 0 && !yaml.empty()) yaml += '\n';
      yaml += fmt::format("{:{}}{}:\n", "", 2 * level, path[level]);
    }
    open.assign(path.begin(), path.end() - 1);
    std::string line = fmt::format("{:{}}{}: {}", "", 2 * depth, path.back(), value.text);
    if (line.size() < comment_column) line.resize(comment_column, ' ');
    yaml += fmt::format("{}  # {}\n", line, on_one_line(value.place));
  }
  return yaml;
}

std::string help_text(std::span<const OptionDescription> reference) {
  std::string text;
  std::string_view section;
  for (const OptionDescription& option : reference) {
    const auto own = std::string_view(option.key).substr(0, option.key.find('.'));
    if (own != section) text += fmt::format("{}{}\n", text.empty() ? "" : "\n", own);
    section = own;
    text += fmt::format(
        "  {}\n      {}\n      ({})\n", option.key, option.documentation, details(option));
  }
  return text;
}

std::string markdown(std::span<const OptionDescription> reference) {
  std::string text;
  std::string_view section;
  for (const OptionDescription& option : reference) {
    const auto own = std::string_view(option.key).substr(0, option.key.find('.'));
    if (own != section) {
      text += fmt::format("{}## {}\n\n", text.empty() ? "" : "\n", own);
      text += "| key | type | allowed | default | meaning |\n|---|---|---|---|---|\n";
    }
    section = own;
    std::string standard =
        option.default_value.empty() ? "required" : fmt::format("`{}`", option.default_value);
    if (!option.set_to.empty())
      standard +=
          fmt::format("; current value `{}`, set at {}", option.set_to, on_one_line(option.set_at));
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n",
                        option.key,
                        option.type,
                        in_table_cell(option.allowed),
                        in_table_cell(standard),
                        in_table_cell(option.documentation));
  }
  return text;
}

}  // namespace longspan
