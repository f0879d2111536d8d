#include <gtest/gtest.h>

#include <protozero/pbf_reader.hpp>

#include "framework/tracking/event_file.h"

namespace longspan::event_messages_test {
namespace {

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Bytes according to the protobuf wire format. A key is eight times the field number plus the type:
// 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
TEST(EventMessages, MatchesProtobufWireFormat) {
  const std::string wall_time = "09000000000000f83f";  // field 1: 1.5
  EXPECT_EQ(hexadecimal(version_event(1.5)),
            wall_time + "1000" +                         // field 2: 0
                "1a0d" + hexadecimal("brain.Event:2"));  // field 3: 13 bytes
  EXPECT_EQ(hexadecimal(session_start_event({1.5, 300})),
            wall_time + "10ac02" +  // field 2: 300
                "3a020801");        // field 7: {field 1: 1}
  const MetricsRecord record = {
      .step = 1, .time = 1.5, .fields = {{MetricGroup::training, "loss", 2.5}}};
  EXPECT_EQ(hexadecimal(record_event(record)),
            wall_time + "1001" + "2a16" +                // field 5: 22 bytes
                "0a14" +                                 // field 1: 20 bytes
                "0a0d" + hexadecimal("training/loss") +  // field 1
                "1500002040");                           // field 2: 2.5 in four bytes
}

TEST(EventMessages, StepRoundTrips) {
  EXPECT_EQ(step_of_event(version_event(1)), 0);
  EXPECT_EQ(step_of_event(text_event({1, std::int64_t{1} << 40}, "a", "b")), std::int64_t{1} << 40);
  EXPECT_EQ(step_of_event("\x0a\xff"), std::nullopt);
}

// The length-delimited fields of a message, by number.
std::map<std::uint32_t, std::string> texts_of(const std::string& bytes) {
  std::map<std::uint32_t, std::string> fields;
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    const std::uint32_t number = reader.tag();  // the unread field
    if (reader.wire_type() == protozero::pbf_wire_type::length_delimited)
      fields[number] = reader.get_string();
    else
      reader.skip();
  }
  return fields;
}

TEST(EventMessages, ContainsHistogramBuckets) {
  MetricsRecord record = {.step = 3, .time = 1, .fields = {}};
  record.histograms.push_back({"weights/a", {}});  // without values: omitted
  Histogram histogram;
  histogram.counts.resize(histogram_buckets());
  histogram.counts[bucket_of(1)] = 4;
  histogram.counts[bucket_of(-1)] = 2;
  histogram.smallest = -1;
  histogram.largest = 1;
  record.histograms.push_back({"weights/b", histogram});
  const std::string value = texts_of(texts_of(record_event(record))[5])[1];
  EXPECT_EQ(texts_of(value)[1], "weights/b");
  const std::string bytes = texts_of(value)[5];
  protozero::pbf_reader reader(bytes);
  std::map<std::uint32_t, double> numbers;
  std::vector<double> counts;
  while (reader.next()) {
    const std::uint32_t number = reader.tag();
    if (number == 7)
      for (const double count : reader.get_packed_double()) counts.push_back(count);
    else if (number == 6)
      reader.skip();
    else
      numbers[number] = reader.get_double();
  }
  EXPECT_EQ(counts, (std::vector<double>{2, 0, 4}));
  EXPECT_EQ(numbers[1], -1);
  EXPECT_EQ(numbers[2], 1);
  EXPECT_EQ(numbers[3], 6);
}

TEST(EventMessages, HyperParametersKeepTheirTypes) {
  const std::string event = hyper_parameters_event({2, 1},
                                                   {{"a", "true"},
                                                    {"b", "1e-05"},
                                                    {"c", "[1, 2]"},
                                                    {"d", "12 apples"},
                                                    {"e", "\"\""},
                                                    {"f", "\"12\""}},
                                                   "run");
  const std::string value = texts_of(texts_of(event)[5])[1];
  EXPECT_EQ(texts_of(value)[1], "_hparams_/session_start_info");
  const std::string plugin = texts_of(texts_of(value)[9])[1];
  EXPECT_EQ(texts_of(plugin)[1], "hparams");
  const std::string bytes = texts_of(texts_of(plugin)[2])[3];
  protozero::pbf_reader session(bytes);
  std::map<std::string, std::string> values;
  while (session.next())
    if (session.tag() == 1) {
      const auto entry = texts_of(session.get_string());
      protozero::pbf_reader of_value(entry.at(2));
      ASSERT_TRUE(of_value.next());
      std::string& found = values[entry.at(1)];
      if (of_value.tag() == 4)
        found = of_value.get_bool() ? "truth true" : "truth false";
      else if (of_value.tag() == 2)
        found = fmt::format("number {}", of_value.get_double());
      else
        found = "text " + of_value.get_string();
    } else {
      session.skip();
    }
  EXPECT_EQ(values,
            (std::map<std::string, std::string>{{"a", "truth true"},
                                                {"b", "number 1e-05"},
                                                {"c", "text [1, 2]"},
                                                {"d", "text 12 apples"},
                                                {"e", "text "},
                                                {"f", "text 12"}}));
}

}  // namespace
}  // namespace longspan::event_messages_test
