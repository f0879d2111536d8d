#include "framework/tracking/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <system_error>
#include <vector>

#include "framework/core/system.h"
#include "framework/tracking/jsonl_file.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr std::string_view name_begin = "events.out.tfevents.";
constexpr std::string_view name_end = ".longspan";
constexpr std::size_t header_bytes = 12;  // length and its checksum
constexpr std::size_t footer_bytes = 4;

template <typename T>
std::string bytes_of(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename T>
T number_in(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// Returns the seconds in the name of a file of this program.
std::optional<std::int64_t> begun_at(const std::string& name) {
  if (!name.starts_with(name_begin) || !name.ends_with(name_end)) return std::nullopt;
  if (name.size() <= name_begin.size() + name_end.size()) return std::nullopt;
  std::int64_t seconds = 0;
  const char* const begin = name.data() + name_begin.size();
  const char* const end = name.data() + name.size() - name_end.size();
  const auto [stop, error] = std::from_chars(begin, end, seconds);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return seconds;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (begun_at(entry.path().filename().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// RAII wrapper of a file descriptor.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path)
      : path_(path), file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (file_ < 0) fail_with_errno(path_, "cannot be opened");
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(file_); }

  std::int64_t size() const {
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail_with_errno(path_, "cannot be read");
    return status.st_size;
  }
  // Reads at most `count` bytes from `begin` on.
  std::string read(std::int64_t begin, std::size_t count) const {
    std::string bytes(count, '\0');
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = retry_interrupted([&] {
        return ::pread(
            file_, bytes.data() + done, count - done, begin + static_cast<std::int64_t>(done));
      });
      if (got < 0) fail_with_errno(path_, "cannot be read");
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }
  void cut(std::int64_t size) const {
    if (::ftruncate(file_, size) != 0) fail_with_errno(path_, "cannot be truncated");
  }

 private:
  fs::path path_;
  int file_;
};

// Returns the offset of the first event of a later step, or of an incomplete record at the end.
// Returns the file's size without either, or where a record is invalid.
std::int64_t end_of_steps(const OpenFile& file, std::int64_t last_step) {
  const std::int64_t size = file.size();
  std::int64_t place = 0;
  while (place < size) {
    const std::string header = file.read(place, header_bytes);
    if (header.size() < header_bytes) return place;
    const std::string_view length = std::string_view(header).substr(0, 8);
    if (number_in<std::uint32_t>(std::string_view(header).substr(8)) != masked_crc32c(length))
      return size;
    const auto count = number_in<std::uint64_t>(length);
    const auto rest = static_cast<std::uint64_t>(size - place) - header_bytes;
    if (count > rest || rest - count < footer_bytes) return place;
    const std::string data = file.read(place + static_cast<std::int64_t>(header_bytes), count);
    const auto step = step_of_event(data);
    if (!step) return size;
    if (*step > last_step) return place;
    place += static_cast<std::int64_t>(header_bytes + count + footer_bytes);
  }
  return size;
}

}  // namespace

std::string record_frame(std::string_view data) {
  const std::string length = bytes_of(std::uint64_t{data.size()});
  std::string frame = length + bytes_of(masked_crc32c(length));
  frame += data;
  return frame + bytes_of(masked_crc32c(data));
}

TensorBoardEventFile::TensorBoardEventFile(const fs::path& path) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail_with_errno(path_, "cannot be created");
}

TensorBoardEventFile::~TensorBoardEventFile() { ::close(file_); }

void TensorBoardEventFile::write(std::string_view event) {
  write_all(file_, path_, record_frame(event));
}

void TensorBoardEventFile::sync() { fsync_file(file_, path_); }

std::string next_event_file(const fs::path& folder, std::int64_t now) {
  for (const fs::path& file : event_files(folder))
    now = std::max(now, *begun_at(file.filename().string()) + 1);
  return fmt::format("{}{:010}{}", name_begin, now, name_end);
}

void truncate_events(const fs::path& folder, std::int64_t last_step) {
  for (const fs::path& path : event_files(folder)) {
    const OpenFile file(path);
    const std::int64_t end = end_of_steps(file, last_step);
    if (end < file.size()) file.cut(end);
  }
}

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? polynomial : 0);
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = ~std::uint32_t{0};
  for (const char byte : bytes)
    rest = (rest >> 8) ^ table[(rest ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~rest;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

namespace {

using Writer = protozero::pbf_writer;

// Protocol buffer field numbers.
namespace event {
constexpr std::uint32_t wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace session_log {
constexpr std::uint32_t status = 1;
constexpr std::int32_t start = 1;
}  // namespace session_log
namespace summary {
constexpr std::uint32_t value = 1;
}
namespace value {
constexpr std::uint32_t tag = 1, simple_value = 2, image = 4, histogram = 5, tensor = 8,
                        metadata = 9;
}
namespace image {
constexpr std::uint32_t height = 1, width = 2, colors = 3, encoded = 4;
}
namespace histogram {
constexpr std::uint32_t least = 1, most = 2, count = 3, sum = 4, sum_of_squares = 5, ends = 6,
                        counts = 7;
}
namespace metadata {
constexpr std::uint32_t plugin = 1, data_class = 4;
constexpr std::uint32_t plugin_name = 1, plugin_content = 2;
constexpr std::int32_t class_of_tensors = 2;
}  // namespace metadata
namespace tensor {
constexpr std::uint32_t dtype = 1, shape = 2, texts = 8;
constexpr std::uint32_t dimension = 2, size = 1;
constexpr std::int32_t float32 = 1, text = 7;
}  // namespace tensor
namespace hyper_parameters {
constexpr std::uint32_t session_start = 3;
constexpr std::uint32_t entry = 1, group_name = 4, start_time = 5;
constexpr std::uint32_t key = 1, value = 2;
constexpr std::uint32_t number = 2, text = 3, truth = 4;
}  // namespace hyper_parameters

// Returns an event with content written by `write`.
template <typename Write>
std::string event_at(const EventTime& time, const Write& write) {
  std::string bytes;
  Writer writer(bytes);
  writer.add_double(event::wall_time, time.seconds);
  writer.add_int64(event::step, time.step);
  write(writer);
  return bytes;
}

// Returns a summary of one value with content written by `write`.
template <typename Write>
std::string summary_event(const EventTime& time, const std::string& tag, const Write& write) {
  return event_at(time, [&](Writer& writer) {
    Writer all(writer, event::summary);
    Writer one(all, summary::value);
    one.add_string(value::tag, tag);
    write(one);
  });
}

void add_plugin(Writer& of_value, const std::string& name, const std::string& content) {
  Writer data(of_value, value::metadata);
  {
    Writer plugin(data, metadata::plugin);
    plugin.add_string(metadata::plugin_name, name);
    plugin.add_bytes(metadata::plugin_content, content);
  }
  data.add_enum(metadata::data_class, metadata::class_of_tensors);
}

void add_shape(Writer& of_tensor, std::int64_t elements) {
  Writer shape(of_tensor, tensor::shape);
  Writer dimension(shape, tensor::dimension);
  dimension.add_int64(tensor::size, elements);
}

void add_histogram(Writer& all, const NamedHistogram& named) {
  const Histogram& of = named.histogram;
  if (of.counts.empty()) return;
  const Bars bars = bars_of(of);
  Writer one(all, summary::value);
  one.add_string(value::tag, named.name);
  Writer writer(one, value::histogram);
  writer.add_double(histogram::least, of.smallest);
  writer.add_double(histogram::most, of.largest);
  writer.add_double(histogram::count, static_cast<double>(of.count()));
  writer.add_double(histogram::sum, of.sum);
  writer.add_double(histogram::sum_of_squares, of.sum_of_squares);
  writer.add_packed_double(histogram::ends, bars.upper_ends.begin(), bars.upper_ends.end());
  writer.add_packed_double(histogram::counts, bars.counts.begin(), bars.counts.end());
}

void add_image(Writer& all, const NamedImage& named) {
  Writer one(all, summary::value);
  one.add_string(value::tag, named.name);
  Writer writer(one, value::image);
  writer.add_int32(image::height, static_cast<std::int32_t>(named.height));
  writer.add_int32(image::width, static_cast<std::int32_t>(named.width));
  writer.add_int32(image::colors, static_cast<std::int32_t>(named.channels));
  writer.add_bytes(image::encoded, named.png);
}

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// Removes YAML quotes, where the text has no escapes.
std::string unquoted(const std::string& text) {
  const bool is_quoted = text.size() >= 2 && text.starts_with('"') && text.ends_with('"') &&
                         text.find('\\') == std::string::npos;
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

void add_hyper_parameter(Writer& session, const std::string& key, const std::string& text) {
  Writer entry(session, hyper_parameters::entry);
  entry.add_string(hyper_parameters::key, key);
  Writer writer(entry, hyper_parameters::value);
  if (text == "true" || text == "false")
    writer.add_bool(hyper_parameters::truth, text == "true");
  else if (const auto number = number_in(text))
    writer.add_double(hyper_parameters::number, *number);
  else
    writer.add_string(hyper_parameters::text, unquoted(text));
}

}  // namespace

std::string version_event(double seconds) {
  return event_at({.seconds = seconds},
                  [](Writer& writer) { writer.add_string(event::file_version, "brain.Event:2"); });
}

std::string session_start_event(const EventTime& time) {
  return event_at(time, [](Writer& writer) {
    Writer log(writer, event::session_log);
    log.add_enum(session_log::status, session_log::start);
  });
}

std::string record_event(const MetricsRecord& record) {
  return event_at({record.time, record.step}, [&](Writer& writer) {
    Writer all(writer, event::summary);
    for (const MetricField& field : record.fields) {
      Writer one(all, summary::value);
      one.add_string(value::tag, tag_of(field));
      one.add_float(value::simple_value, static_cast<float>(number_of(field)));
    }
    for (const NamedHistogram& each : record.histograms) add_histogram(all, each);
    for (const NamedImage& each : record.images) add_image(all, each);
  });
}

std::string text_event(const EventTime& time, const std::string& tag, const std::string& markdown) {
  return summary_event(time, tag, [&](Writer& writer) {
    add_plugin(writer, "text", "");
    Writer texts(writer, value::tensor);
    texts.add_enum(tensor::dtype, tensor::text);
    add_shape(texts, 1);
    texts.add_string(tensor::texts, markdown);
  });
}

std::string hyper_parameters_event(const EventTime& time,
                                   const std::map<std::string, std::string>& keys,
                                   const std::string& run_id) {
  std::string content;
  Writer plugin(content);
  {
    Writer session(plugin, hyper_parameters::session_start);
    for (const auto& [key, text] : keys) add_hyper_parameter(session, key, text);
    session.add_string(hyper_parameters::group_name, run_id);
    session.add_double(hyper_parameters::start_time, time.seconds);
  }
  return summary_event(time, "_hparams_/session_start_info", [&](Writer& writer) {
    add_plugin(writer, "hparams", content);
    // Hyperparameters are in the metadata only, so the tensor is empty.
    Writer nothing(writer, value::tensor);
    nothing.add_enum(tensor::dtype, tensor::float32);
    add_shape(nothing, 0);
  });
}

std::optional<std::int64_t> step_of_event(std::string_view bytes) try {
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  std::int64_t step = 0;
  while (reader.next())
    if (reader.tag() == event::step && reader.wire_type() == protozero::pbf_wire_type::varint)
      step = reader.get_int64();
    else
      reader.skip();
  return step;
} catch (const protozero::exception&) {
  return std::nullopt;
}

}  // namespace longspan
