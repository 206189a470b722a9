// Traces to report on, and a reader of reports that shares no code with their writer.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/trace/trace.h"
#include "viewer/report_file.h"
#include "viewer/trace_report.h"

namespace megaflux::viewer {

struct TraceExtent {
  int64_t steps = 0;
  int32_t layers = 0;
  int32_t ranks = 0;  // 1 = without sources
  int32_t experts = 0;
};

// Loads whose hot experts wander from step to step.
inline Trace drifting_trace(const TraceExtent& extent, uint64_t seed = 1) {
  TraceData data;
  data.meta = {.num_experts = extent.experts,
               .topk = 2,
               .num_ranks = extent.ranks,
               .layers = {},
               .model = "drift",
               .origin = "a test",
               .licence = "none",
               .time_ordered = true};
  for (int32_t l = 0; l < extent.layers; ++l) data.meta.layers.push_back(3 + l);
  data.num_steps = extent.steps;
  data.load_ranks = extent.ranks;
  Rng rng(seed);
  for (int64_t s = 0; s < extent.steps; ++s) {
    for (int32_t l = 0; l < extent.layers; ++l) {
      const int64_t hot = (s / 3 + 5 * l) % extent.experts;
      for (int32_t p = 0; p < extent.ranks; ++p) {
        for (int32_t e = 0; e < extent.experts; ++e) {
          const int32_t most = e == hot ? 4000 : 400;
          data.loads.push_back(static_cast<int32_t>(rng.below(static_cast<uint32_t>(most))));
        }
      }
    }
  }
  return Trace(std::move(data));
}

// A report of `trace` on `num_ranks` ranks with two slots each; with `has_model` times are
// predicted.
inline ReportSetting setting_for(const Trace& trace, int32_t num_ranks, bool has_model) {
  ReportSetting setting;
  setting.name = "drift.npz";
  setting.step.plan.dims = {.num_experts = trace.meta().num_experts,
                            .num_ranks = num_ranks,
                            .replica_slots = 2,
                            .block_rows = 128};
  setting.step.plan.owner_of = contiguous_owners(trace.meta().num_experts, num_ranks);
  if (has_model) {
    setting.model = simulate::parse_model("model", "2048,768,2");
    setting.step.shape =
        simulate::shape_for(*setting.model, trace.meta().num_experts, trace.meta().topk);
    setting.step.plan.cost =
        make_cost_model(setting.machine, *setting.step.shape, 128, CostScope::kForward);
  }
  setting.what_if = {.planners = {{.kind = PlannerKind::kMegaflux}, {.kind = PlannerKind::kFixed}},
                     .ranks = {num_ranks},
                     .slots = {1, 2}};
  setting.detail_bytes = 1 << 20;
  setting.num_threads = 2;
  setting.has_times = false;
  return setting;
}

inline std::string report_html(const Trace& trace, const ReportSetting& setting) {
  ArrayBlob blob;
  const Json meta = {{"schema", kReportSchema},
                     {"traces", Json::array({report_trace(trace, setting, blob).json})}};
  std::ostringstream out;
  write_report(out, {"<html>\n", "\n</html>"}, meta, blob);
  return out.str();
}

inline std::string between(const std::string& text, const std::string& open,
                           const std::string& close) {
  const size_t begin = text.find(open);
  EXPECT_NE(begin, std::string::npos) << open;
  const size_t end = text.find(close, begin + open.size());
  EXPECT_NE(end, std::string::npos) << close;
  return text.substr(begin + open.size(), end - begin - open.size());
}

inline std::string decoded_base64(const std::string& text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t value = letters.find(c);
    EXPECT_NE(value, std::string::npos);
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

inline std::string inflated(const std::string& packed) {
  z_stream zlib = {};
  EXPECT_EQ(inflateInit2(&zlib, -15), Z_OK);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  zlib.avail_in = static_cast<uInt>(packed.size());
  std::string bytes;
  int status = Z_OK;
  while (status == Z_OK) {
    char piece[4096];
    zlib.next_out = reinterpret_cast<Bytef*>(piece);
    zlib.avail_out = sizeof(piece);
    status = inflate(&zlib, Z_NO_FLUSH);
    bytes.append(piece, sizeof(piece) - zlib.avail_out);
  }
  EXPECT_EQ(status, Z_STREAM_END);
  inflateEnd(&zlib);
  return bytes;
}

// A report taken apart again.
class ReadReport {
 public:
  explicit ReadReport(const std::string& html)
      : meta(Json::parse(
            between(html, "<script type=\"application/json\" id=\"report-meta\">", "</script>"))),
        blob_(inflated(decoded_base64(between(
            html, "<script type=\"application/octet-stream\" id=\"report-data\">", "</script>")))) {
  }

  const Json& trace() const { return meta.at("traces").at(0); }

  template <typename T>
  std::vector<T> array(const char* group, const char* name) const {
    const Json& reference = trace().at(group).at(name);
    const auto at = reference.at("at").get<size_t>();
    std::vector<T> values(reference.at("count").get<size_t>());
    EXPECT_EQ(reference.at("type"), type_name<T>()) << name;
    EXPECT_EQ(at % 4, 0u) << name;
    EXPECT_LE(at + values.size() * sizeof(T), blob_.size()) << name;
    if (!values.empty()) std::memcpy(values.data(), blob_.data() + at, values.size() * sizeof(T));
    return values;
  }

  Json meta;

 private:
  template <typename T>
  static const char* type_name() {
    if (std::is_same_v<T, float>) return "f32";
    return sizeof(T) == 4 ? "u32" : sizeof(T) == 2 ? "u16" : "u8";
  }
  std::string blob_;
};

}  // namespace megaflux::viewer
