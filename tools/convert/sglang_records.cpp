#include "convert/sglang_records.h"

#include <algorithm>
#include <limits>
#include <map>

#include "megaflux/base/check.h"

namespace megaflux::convert {
namespace {

constexpr std::string_view kPass = "forward_pass_id";
constexpr std::string_view kRank = "rank";
constexpr std::string_view kIds = "topk_ids_of_layer";
constexpr std::string_view kCounts = "global_physical_count";

std::string record_name(const std::string& name, size_t index) {
  return name + ": record " + std::to_string(index);
}

// A number of the record; `fallback` if it is not there.
int32_t number_of(const ArraysByName& record, std::string_view key, int32_t fallback) {
  const auto found = record.find(key);
  return found == record.end() || found->second.values.size() != 1 ? fallback
                                                                   : found->second.values.front();
}

const NumberArray& array_of(const ArraysByName& record, std::string_view key,
                            const std::string& where) {
  const auto found = record.find(key);
  MF_CHECK(found != record.end(), where, ": ", key, " is missing");
  return found->second;
}

void add_counts(NumberArray& sum, const NumberArray& more, const std::string& where) {
  MF_CHECK(sum.shape == more.shape, where, ": shape ", shape_text(more.shape),
           ", the record before it of this forward pass has ", shape_text(sum.shape));
  for (size_t i = 0; i < sum.values.size(); ++i) {
    MF_CHECK(more.values[i] <= std::numeric_limits<int32_t>::max() - sum.values[i], where,
             ": more than ", std::numeric_limits<int32_t>::max(), " rows of an expert");
    sum.values[i] += more.values[i];
  }
}

Recording counts_of_records(const std::vector<ArraysByName>& records, const PhysicalMap& map,
                            const std::string& name) {
  std::map<int32_t, size_t> step_of;
  std::vector<NumberArray> steps;
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string where = record_name(name, i);
    const NumberArray& counts = array_of(records[i], kCounts, where);
    MF_CHECK(counts.shape.size() == 2, where, ": ", kCounts, ": shape ", shape_text(counts.shape),
             ", [layer, physical expert] expected");
    NumberArray logical = logical_counts(counts, map, where);
    // Without a number every record is a forward pass of its own.
    const int32_t pass = number_of(records[i], kPass, -1 - static_cast<int32_t>(i));
    const auto [place, is_first] = step_of.emplace(pass, steps.size());
    if (is_first) {
      steps.push_back(std::move(logical));
    } else {
      add_counts(steps[place->second], logical, where);
    }
  }
  NumberArray all{.shape = steps.front().shape, .values = {}};
  all.shape.insert(all.shape.begin(), static_cast<int64_t>(steps.size()));
  for (const NumberArray& step : steps) {
    MF_CHECK(step.shape == steps.front().shape, name, ": records of shapes ",
             shape_text(step.shape), " and ", shape_text(steps.front().shape));
    all.values.insert(all.values.end(), step.values.begin(), step.values.end());
  }
  Recording recording = counts_recording(std::move(all), Kind::kCounts, name);
  drop_empty_steps(recording);
  recording.data.meta.time_ordered = true;
  return recording;
}

Recording ids_of_records(const std::vector<ArraysByName>& records, const PhysicalMap& map,
                         const ImportSettings& settings, const std::string& name) {
  MF_CHECK(settings.step_tokens == 0, name, ": --step-tokens ", settings.step_tokens,
           " given, and each record is a step");
  NumberArray all;
  std::vector<int64_t> offsets = {0};
  const int32_t rank = number_of(records.front(), kRank, 0);
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string where = record_name(name, i);
    MF_CHECK(number_of(records[i], kRank, 0) == rank, where, ": rank ",
             number_of(records[i], kRank, 0), ", the first record is of rank ", rank,
             "; import the ids of one rank");
    const NumberArray ids = token_first_ids(array_of(records[i], kIds, where), map, where);
    if (i == 0) all.shape = {0, ids.shape[1], ids.shape[2]};
    MF_CHECK(ids.shape[1] == all.shape[1] && ids.shape[2] == all.shape[2], where, ": shape ",
             shape_text(ids.shape), ", the first record has ", shape_text(all.shape));
    all.shape[0] += ids.shape[0];
    all.values.insert(all.values.end(), ids.values.begin(), ids.values.end());
    offsets.push_back(all.shape[0]);
  }
  Recording recording = ids_recording(std::move(all), settings, name);
  recording.data.num_steps = static_cast<int64_t>(offsets.size()) - 1;
  recording.data.step_offsets = std::move(offsets);
  recording.data.meta.num_experts = map.is_there() ? map.num_experts() : 0;
  recording.data.meta.time_ordered = true;
  return recording;
}

}  // namespace

bool is_record_number(std::string_view key) {
  return key == kPass || key == kRank;
}

Recording records_recording(std::vector<ArraysByName> records, const PhysicalMap& map,
                            const ImportSettings& settings, const std::string& name) {
  const bool has_ids = records.front().contains(kIds);
  return has_ids ? ids_of_records(records, map, settings, name)
                 : counts_of_records(records, map, name);
}

}  // namespace megaflux::convert
