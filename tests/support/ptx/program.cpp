#include "tests/support/ptx/program.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <stdexcept>

#include "tests/support/ptx/words.h"

namespace ptx {
namespace {

// Register bits of a number in the text.
std::uint64_t bits_of(const Token& token) {
  std::string_view text = token.text;
  const auto begins = [&](std::string_view with) { return text.starts_with(with); };
  const bool negative = begins("-");
  if (negative) text.remove_prefix(1);
  const bool is_real = begins("0f") || begins("0F") || begins("0d") || begins("0D");
  const bool hexadecimal = is_real || begins("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, bits, hexadecimal ? 16 : 10);
  if (read.ec != std::errc() || (read.ptr != end && *read.ptr != 'U'))
    refuse(token.line, "wanted a number", token.text);
  return negative ? -bits : bits;
}

std::size_t bytes_of(const Token& type) {
  if (type.text == ".pred") return 1;
  const std::string_view digits = type.text.substr(std::min(type.text.size(), std::size_t{2}));
  return bits_of({digits, type.line}) / 8;
}

struct Named {
  std::string name;
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  bool of_bytes = false;  // array of bytes
};
using Offsets = std::map<std::string, std::size_t, std::less<>>;

// Declaration after the space: `.align 4 .b8 name[12]`.
Named read_variable(Words& words) {
  Named variable;
  const bool aligned = words.takes(".align");
  if (aligned) variable.alignment = bits_of(words.take());
  variable.bytes = bytes_of(words.take());
  variable.of_bytes = variable.bytes == 1;
  if (!aligned) variable.alignment = variable.bytes;
  if (words.takes(".ptr"))  // skips the pointee
    while (words.peek().text.starts_with('.'))
      if (words.take().text == ".align") words.take();
  variable.name = words.take().text;
  if (words.takes("[")) {
    variable.bytes *= words.peek().text == "]" ? 0 : bits_of(words.take());
    words.expect("]");
  }
  return variable;
}

Variable place(const Named& variable, std::size_t& end) {
  const std::size_t offset =
      (end + variable.alignment - 1) / variable.alignment * variable.alignment;
  end = offset + variable.bytes;
  return {offset, variable.bytes};
}

}  // namespace

struct Program::Text {
  // A function, and the position of its body, which is parsed on demand.
  struct Declared {
    Function function;
    Offsets parameters;
    Words body;
    bool is_kernel = false;
    bool is_read = false;
  };
  class Body;

  std::string text;
  std::map<std::string, Declared, std::less<>> functions;
  std::map<std::string, std::vector<std::uint64_t>, std::less<>> globals;
  std::vector<Named> shared;
  std::map<std::uint64_t, std::string_view> files;  // of the C++ source

  explicit Text(std::string all) : text(std::move(all)) {
    Words words(text);
    while (!words.at_end()) {
      const Token token = words.take();
      if (token.text == ".version" || token.text == ".address_size") {
        words.take();
      } else if (token.text == ".target") {
        do words.take();
        while (words.takes(","));
      } else if (token.text == ".file") {
        const std::uint64_t number = bits_of(words.take());
        files[number] = words.take().text;
        words.pass_line(token.line);
      } else if (token.text == ".section") {
        while (words.take().text != "{") {
        }
        words.pass_braces();
      } else if (token.text == ".entry" || token.text == ".func") {
        read_function(words, token.text == ".entry");
      } else if (token.text == ".global" || token.text == ".const") {
        read_global(words);
      } else if (token.text == ".shared") {
        shared.push_back(read_variable(words));
        words.expect(";");
      } else if (token.text != ".visible" && token.text != ".extern" && token.text != ".weak") {
        refuse(token.line, "wanted a declaration", token.text);
      }
    }
  }

  // Returns a function with its body.
  const Function& read(std::string_view name);

  void read_global(Words& words) {
    const Named variable = read_variable(words);
    std::vector<std::uint64_t>& values = globals[variable.name];
    values.resize((variable.bytes + 7) / 8);
    if (words.takes("=")) {
      if (!variable.of_bytes) refuse(words.peek().line, "unknown values of", variable.name);
      auto* const bytes = reinterpret_cast<unsigned char*>(values.data());
      words.expect("{");
      std::size_t count = 0;
      do bytes[count++] = static_cast<unsigned char>(bits_of(words.take()));
      while (count < variable.bytes && words.takes(","));
      words.expect("}");
    }
    words.expect(";");
  }

  static std::vector<Variable> read_parameters(Words& words, Declared& declared) {
    std::vector<Variable> all;
    words.expect("(");
    while (!words.takes(")")) {
      words.takes(",");
      words.expect(".param");
      const Named variable = read_variable(words);
      all.push_back(place(variable, declared.function.parameter_bytes));
      declared.parameters[variable.name] = all.back().offset;
    }
    return all;
  }

  void read_function(Words& words, bool is_kernel) {
    Declared declared;
    declared.is_kernel = is_kernel;
    Function& function = declared.function;
    if (words.peek().text == "(") function.results = read_parameters(words, declared);
    function.name = words.take().text;
    if (words.peek().text == "(") function.parameters = read_parameters(words, declared);
    for (;;) {
      if (words.takes(";")) return;  // a declaration without body
      if (words.takes("{")) break;
      if (words.take().text == ".maxntid")
        function.max_threads = static_cast<unsigned>(bits_of(words.peek()));
    }
    declared.body = words;
    words.pass_braces();
    const std::string name = function.name;
    functions[name] = std::move(declared);
  }
};

// Parses the body of a function.
class Program::Text::Body {
 public:
  Body(Text& text, Declared& declared)
      : text_(text),
        function_(declared.function),
        is_kernel_(declared.is_kernel),
        words_(declared.body),
        parameters_(declared.parameters) {
    for (const Named& variable : text.shared) share(variable);
    for (scopes_.emplace_back(); !scopes_.empty();) read_statement();
    for (const auto& [instruction, label] : branches_) {
      const auto found = labels_.find(label.text);
      if (found == labels_.end()) refuse(label.line, "no such label", label.text);
      function_.code[instruction].offset = static_cast<std::int64_t>(found->second);
    }
  }

 private:
  void read_statement() {
    const Token token = words_.take();
    if (token.text == "{") {
      scopes_.emplace_back();
    } else if (token.text == "}") {
      scopes_.pop_back();
    } else if (token.text == ".reg") {
      read_registers();
    } else if (token.text == ".param") {
      const Named variable = read_variable(words_);
      parameters_[variable.name] = place(variable, function_.parameter_bytes).offset;
    } else if (token.text == ".local") {
      const Named variable = read_variable(words_);
      locals_[variable.name] = place(variable, function_.local_bytes).offset;
    } else if (token.text == ".shared") {
      share(read_variable(words_));
    } else if (token.text == ".pragma") {
      words_.take();
    } else if (token.text == ".loc") {
      source_ = text_.files[bits_of(words_.take())];
      source_line_ = static_cast<int>(bits_of(words_.take()));
      words_.pass_line(token.line);
    } else if (!scopes_.empty() && token.text != ";") {
      if (!words_.takes(":"))
        read_instruction(token);
      else if (!labels_.try_emplace(std::string(token.text), function_.code.size()).second)
        refuse(token.line, "a second label", token.text);
    }
  }

  // Dynamic shared memory has no size in the text and is placed last.
  void share(const Named& variable) {
    if (!is_kernel_ && variable.bytes > 0)
      refuse(words_.peek().line, "shared memory of a function", variable.name);
    if (variable.bytes > 0)
      shared_[variable.name] = place(variable, function_.shared_bytes).offset;
    else
      of_launch_ = variable;
  }

  Register new_register(std::uint64_t value = 0) {
    function_.registers.push_back(value);
    return static_cast<Register>(function_.registers.size() - 1);
  }

  // `.reg .b32 %r<12>;` or `.reg .b32 %a, %b;`
  void read_registers() {
    words_.take();
    do {
      const std::string name(words_.take().text);
      if (words_.takes("<")) {
        const std::uint64_t count = bits_of(words_.take());
        for (std::uint64_t i = 0; i < count; ++i)
          scopes_.back()[name + std::to_string(i)] = new_register();
        words_.expect(">");
      } else {
        scopes_.back()[name] = new_register();
      }
    } while (words_.takes(","));
  }

  Register constant(std::uint64_t value) {
    const auto [found, is_new] = constants_.try_emplace(value, 0);
    if (is_new) found->second = new_register(value);
    return found->second;
  }

  static const std::map<std::string_view, Place>& places() {
    static const std::map<std::string_view, Place> all = {{"%tid.x", Place::thread},
                                                          {"%laneid", Place::lane},
                                                          {"%ctaid.x", Place::block},
                                                          {"%ntid.x", Place::threads},
                                                          {"%nctaid.x", Place::blocks}};
    return all;
  }

  Register register_of(const Token& token) {
    const std::string_view name = token.text;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    if (name == "_") return new_register();
    if (const auto found = places().find(name); found != places().end()) {
      const Register place = new_register();
      function_.places.emplace_back(place, found->second);
      return place;
    }
    if (is_digit(name.front()) || name.starts_with('-')) return constant(bits_of(token));
    for (const Offsets* const known : {&parameters_, &shared_})
      if (const auto found = known->find(name); found != known->end())
        return constant(found->second);
    if (const auto found = locals_.find(name); found != locals_.end()) {
      const Register address = new_register();
      function_.local_addresses.emplace_back(address, found->second);
      return address;
    }
    if (name == of_launch_.name) {
      Named rest = of_launch_;
      return constant(place(rest, function_.shared_bytes).offset);
    }
    if (const auto found = text_.globals.find(name); found != text_.globals.end())
      return constant(std::bit_cast<std::uint64_t>(found->second.data()));
    refuse(token.line, "no such name", name);
  }

  void read_instruction(Token token) {
    Instruction instruction;
    if (token.text == "@") {
      instruction.has_guard = true;
      instruction.unless = words_.takes("!");
      instruction.guard = register_of(words_.take());
      token = words_.take();
    }
    instruction.name = token.text;
    instruction.line = token.line;
    instruction.source = source_;
    instruction.source_line = source_line_;
    if (token.text == "bra" || token.text == "bra.uni")
      branches_.emplace_back(function_.code.size(), words_.take());
    else if (token.text == "call" || token.text == "call.uni")
      read_call(instruction);
    else
      read_operands(instruction);
    words_.expect(";");
    if (!choose_action(instruction)) refuse(token.line, "unknown instruction", token.text);
    function_.code.push_back(std::move(instruction));
  }

  // `(results), name, (parameters)`. values: their offsets in the parameters of this function.
  void read_call(Instruction& call) {
    const auto read_list = [&] {
      words_.expect("(");
      while (!words_.takes(")")) {
        words_.takes(",");
        const Token name = words_.take();
        const auto found = parameters_.find(name.text);
        if (found == parameters_.end()) refuse(name.line, "no such parameter", name.text);
        call.values.push_back(static_cast<Register>(found->second));
      }
    };
    if (words_.peek().text == "(") {
      read_list();
      words_.expect(",");
    }
    call.callee = &text_.read(words_.take().text);
    if (words_.takes(",")) read_list();
  }

  void read_operands(Instruction& instruction) {
    bool in_address = false;
    for (; words_.peek().text != ";";) {
      const Token token = words_.take();
      if (token.text == "[" || token.text == "]")
        in_address = token.text == "[";
      else if (token.text == "+" && in_address)
        instruction.offset = static_cast<std::int64_t>(bits_of(words_.take()));
      else if (token.text == "{")
        instruction.parts_first = instruction.parts_first || instruction.values.empty();
      else if (token.text == "|" && !instruction.name.starts_with("shfl"))
        refuse(token.line, "unknown operand", token.text);
      else if (token.text != "}" && token.text != "," && token.text != "|")
        instruction.values.push_back(register_of(token));
    }
  }

  Text& text_;
  Function& function_;
  bool is_kernel_;
  Words words_;
  Offsets parameters_, locals_, shared_;
  Named of_launch_;
  std::vector<std::map<std::string, Register, std::less<>>> scopes_;
  std::map<std::string, std::size_t, std::less<>> labels_;
  std::map<std::uint64_t, Register> constants_;
  std::vector<std::pair<std::size_t, Token>> branches_;
  std::string_view source_;
  int source_line_ = 0;
};

const Function& Program::Text::read(std::string_view name) {
  const auto found = functions.find(name);
  if (found == functions.end()) throw std::runtime_error("no body of " + std::string(name));
  Declared& declared = found->second;
  if (!std::exchange(declared.is_read, true)) Body(*this, declared);
  return declared.function;
}

Program::Program(std::string text) : text_(std::make_unique<Text>(std::move(text))) {}
Program::Program(Program&&) noexcept = default;
Program::~Program() = default;

std::vector<std::string> Program::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, declared] : text_->functions)
    if (declared.is_kernel) names.push_back(name);
  return names;
}

const Function& Program::function(std::string_view name) { return text_->read(name); }

}  // namespace ptx
