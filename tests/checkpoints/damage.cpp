// Damages checkpoints and reads them, for tests/reliability/damage_test.py:
//
//   checkpoint_damage STEP...
//     Reads numbers. Each determines the damage to one file of one of the steps (directories such
//     as step-000000004 that no other process uses). Answers "NUMBER refused|same MILLISECONDS
//     WHAT" or "NUMBER failed WHY", then restores the step.
#include <sys/stat.h>

#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>

#include "checkpoints/json_fields.h"
#include "checkpoints/manifest.h"
#include "framework/training_loop/checkpoint_values.h"
#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;

Files files_of(const fs::path& step) {
  Files files;
  for (const auto& entry : fs::directory_iterator(step))
    files[entry.path().filename().string()] = read_bytes(entry.path());
  return files;
}

// Returns everything from which a run resumes.
std::string all_of(const fs::path& step) {
  const Checkpoint checkpoint = open_run_checkpoint(step);
  const CheckpointInfo& info = checkpoint.info();
  std::string text = fmt::format("{} {} {} {} {} {} {} {}",
                                 info.run_id,
                                 info.step,
                                 info.layout.data,
                                 info.layout.context,
                                 info.layout.tensor,
                                 info.layout.sequence,
                                 info.configuration,
                                 info.saved_at);
  text += json_of(checkpoint.scalars()).dump();
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    TrainingState one;
    one.add(tensor.name, Tensor::empty(tensor.shape, tensor.dtype, Device::cpu()), false);
    checkpoint.read(one.tensors.front());
    text += fmt::format("{} {} ", tensor.name, tensor.shape.to_string());
    text += bytes_of(one.tensors.front().tensor);
  }
  return text;
}

struct Step {
  fs::path path;
  Files files;
  std::string all;
};

// Random numbers determined by the number of the case.
class Draw {
 public:
  explicit Draw(std::uint64_t number) : random_(Random(71).child(number)) {}
  std::uint64_t below(std::uint64_t end) {
    const std::uint64_t high = random_.word(next_++);
    return (high << 32 | random_.word(next_++)) % end;
  }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

// Returns a random file of a step, more often a large one.
std::string file_in(const Step& step, Draw& draw) {
  if (draw.below(3) == 0)
    return std::next(step.files.begin(), static_cast<std::ptrdiff_t>(draw.below(step.files.size())))
        ->first;
  std::size_t bytes = 0;
  for (const auto& [name, content] : step.files) bytes += content.size();
  std::size_t at = draw.below(bytes);
  for (const auto& [name, content] : step.files) {
    if (at < content.size()) return name;
    at -= content.size();
  }
  return {};
}

// Returns changed bytes and a description of the change.
std::pair<std::string, std::string> changed(std::string bytes, const Step& other, Draw& draw) {
  const std::size_t at = draw.below(bytes.size());
  const auto block = [&] {
    const std::size_t size = std::min<std::size_t>(bytes.size(), 512u << draw.below(4));
    return std::pair(draw.below(bytes.size() / size) * size, size);
  };
  switch (draw.below(8)) {
    case 0: {
      const std::size_t count = std::min<std::size_t>(1 + draw.below(64), bytes.size() - at);
      for (std::size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(draw.below(256));
      return {bytes, fmt::format("{} bytes at {} overwritten", count, at)};
    }
    case 1:
      return {bytes.substr(0, at), fmt::format("cut to {} bytes", at)};
    case 2: {
      const char letter = static_cast<char>(draw.below(256));
      return {bytes + std::string(1 + draw.below(5000), letter), "made longer"};
    }
    case 3: {
      const auto [first, size] = block();
      const std::size_t second = draw.below(bytes.size() / size) * size;
      std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                       bytes.begin() + static_cast<std::ptrdiff_t>(first + size),
                       bytes.begin() + static_cast<std::ptrdiff_t>(second));
      return {bytes, fmt::format("blocks of {} bytes at {} and {} swapped", size, first, second)};
    }
    case 4: {
      const auto [first, size] = block();
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(first), size, '\0');
      return {bytes, fmt::format("{} bytes at {} zero", size, first)};
    }
    case 5: {
      const auto found = std::next(other.files.begin(),
                                   static_cast<std::ptrdiff_t>(draw.below(other.files.size())));
      const auto [first, size] = block();
      bytes.replace(first, size, found->second.substr(0, size));
      return {bytes, fmt::format("{} bytes at {} of another file", size, first)};
    }
    default: {
      const auto bit = draw.below(8);
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      return {bytes, fmt::format("bit {} of byte {} flipped", bit, at)};
    }
  }
}

// Replaces a file by something else. Returns a description.
std::string replaced(const fs::path& file, const Step& step, const Step& other, Draw& draw) {
  const std::string name = file.filename().string();
  const auto found =
      std::next(step.files.begin(), static_cast<std::ptrdiff_t>(draw.below(step.files.size())));
  fs::remove(file);
  switch (draw.below(9)) {
    case 0:
      return "removed";
    case 1:
      write_bytes(file, found->second);
      return fmt::format("replaced by {}", found->first);
    case 2:
      if (other.files.contains(name)) write_bytes(file, other.files.at(name));
      return fmt::format("replaced by that of {}", other.path.string());
    case 3:
      fs::create_symlink(other.path / name, file);
      return fmt::format("a symbolic link to that of {}", other.path.string());
    case 4:
      fs::create_symlink(found->first, file);
      return fmt::format("a symbolic link to {}", found->first);
    case 5:
      fs::create_symlink(draw.below(2) == 0 ? "/dev/zero" : "nothing", file);
      return "a symbolic link elsewhere";
    case 6:
      require(mkfifo(file.c_str(), 0600) == 0, "there is no pipe");
      return "a pipe";
    case 7:
      fs::create_directory(file);
      return "a folder";
    default:
      write_bytes(file, "");
      return "empty";
  }
}

// Updates the manifest to match a damaged file, as an attacker would.
void explain(const Step& step, const std::string& name) {
  const std::string bytes = read_bytes(step.path / name);
  Manifest manifest = manifest_of_text(step.files.at(manifest_name), "the manifest");
  for (ManifestFile& file : manifest.files)
    if (file.name == name) file.content = {static_cast<std::int64_t>(bytes.size()), hash_of(bytes)};
  write_bytes(step.path / manifest_name, manifest_text(manifest));
}

struct Damage {
  std::string what;
  bool explained = false;
};

// Applies the damage that the draw selects.
Damage damage(const Step& step, const Step& other, Draw& draw) {
  const std::string name = file_in(step, draw);
  const fs::path file = step.path / name;
  Damage done;
  if (draw.below(4) == 0) {
    done.what = replaced(file, step, other, draw);
  } else {
    const auto [bytes, what] = changed(step.files.at(name), other, draw);
    write_bytes(file, bytes);
    done = {what, name.starts_with("rank-") && draw.below(2) == 0};
  }
  if (done.explained) {
    explain(step, name);
    done.what += ", and the manifest says so";
  }
  done.what = fmt::format("{}: {}", file.string(), done.what);
  return done;
}

void restore(const Step& step) {
  fs::remove_all(step.path);
  fs::create_directory(step.path);
  for (const auto& [name, bytes] : step.files) write_bytes(step.path / name, bytes);
}

// Returns "refused" or "same" for a damaged step, or a description of the failure.
std::string outcome(const Step& step, bool explained) {
  std::string read;
  try {
    read = all_of(step.path) == step.all ? "same" : "was read, and other values came out";
  } catch (const DataError& error) {
    const std::string sentence = error.what();
    read = sentence.find('\n') != std::string::npos || sentence.size() > 2000
               ? fmt::format("\"{}\" is no sentence", sentence)
               : "refused";
  } catch (const std::exception& error) {
    return fmt::format("another kind of error: {}", error.what());
  }
  bool is_complete = true;
  for (const auto& [name, bytes] : step.files)
    is_complete = is_complete &&
                  fs::symlink_status(step.path / name).type() == fs::file_type::regular &&
                  read_bytes(step.path / name) == bytes;
  const bool is_found = !verify_checkpoint(step.path, {}, value_problems).empty();
  if (is_complete && (is_found || read != "same")) return "nothing was changed, and it is refused";
  // A step is valid if its manifest matches the damage and no value changes, as with unused bytes.
  if (!is_complete && !is_found && (!explained || read != "same")) return "verify sees nothing";
  return read;
}

void work(const std::vector<std::string>& paths) {
  require(paths.size() > 1, "usage: checkpoint_damage STEP...");
  std::vector<Step> steps;
  for (const std::string& path : paths) steps.push_back({path, files_of(path), all_of(path)});
  std::uint64_t number = 0;
  while (std::cin >> number) {
    Draw draw(number);
    const std::size_t chosen = draw.below(steps.size());
    // Steps come in pairs with equal shapes; the other step is mostly that of the pair.
    const Step& other = steps[draw.below(2) == 0 ? chosen ^ 1 : draw.below(steps.size())];
    const Damage done = damage(steps[chosen], other, draw);
    // CPU time, since other processes may use the machine.
    const std::clock_t begin = std::clock();
    const std::string found = outcome(steps[chosen], done.explained);
    const double milliseconds = 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    restore(steps[chosen]);
    if (found == "refused" || found == "same")
      fmt::print("{} {} {:.1f} {}\n", number, found, milliseconds, done.what);
    else
      fmt::print("{} failed {}: {}\n", number, done.what, found);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace longspan::testing

int main(int count, char** words) try {
  longspan::testing::work({words + 1, words + count});
} catch (const std::exception& error) {
  fmt::print(stderr, "checkpoint_damage: {}\n", error.what());
  return 1;
}
