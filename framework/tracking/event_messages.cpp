#include "framework/tracking/event_messages.h"

#include <charconv>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <system_error>

namespace longspan {
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
