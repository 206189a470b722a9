#include "convert/ultraep_export.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/trace/npy.h"
#include "megaflux/trace/whole_file.h"
#include "megaflux/trace/zip_container.h"

namespace megaflux::convert {
namespace {

namespace fs = std::filesystem;

// Places of rank r: its own experts, then its slots.
int64_t owner_place(const UltraEpDims& dims, int64_t expert) {
  return expert + expert / dims.owned() * dims.slots;
}
int64_t slot_place(const UltraEpDims& dims, int64_t rank, int64_t slot) {
  return rank * (dims.owned() + dims.slots) + dims.owned() + slot;
}

template <typename T>
ZipInput array_entry(const std::string& name, NpyType type, std::vector<int64_t> shape,
                     const std::vector<T>& values) {
  return {name + ".npy", encode_npy(type, shape, std::as_bytes(std::span(values)))};
}

// JSON of ours is ASCII: everything else is escaped.
ZipInput text_entry(const std::string& name, const std::string& ascii) {
  const std::vector<char32_t> letters(ascii.begin(), ascii.end());
  return array_entry(name, NpyType::kText, {static_cast<int64_t>(letters.size())}, letters);
}

std::string ascii_json(const nlohmann::ordered_json& object, int indent) {
  return object.dump(indent, ' ', /*ensure_ascii=*/true,
                     nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

UltraEpDims ultraep_dims(const Trace& trace, int32_t num_ranks, int32_t slots) {
  const int32_t experts = trace.meta().num_experts;
  MF_CHECK(num_ranks >= 1 && experts % num_ranks == 0, "--ranks: ", num_ranks,
           " do not divide the ", experts, " experts of the trace, as UltraEP's layout needs");
  return {.num_experts = experts, .num_ranks = num_ranks, .slots = slots};
}

void fixed_places(const UltraEpDims& dims, const LoadTable& loads, std::span<int32_t> places) {
  std::fill(places.begin(), places.end(), 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) places[owner_place(dims, e)] = loads.totals()[e];
}

void plan_places(const UltraEpDims& dims, const Plan& plan, const LoadTable& loads,
                 std::span<int32_t> places) {
  std::fill(places.begin(), places.end(), 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      const int64_t place =
          instance.slot < 0 ? owner_place(dims, e) : slot_place(dims, instance.rank, instance.slot);
      places[place] += static_cast<int32_t>(loads.rows_in_blocks(
          e, instance.first_block, instance.num_blocks, plan.dims().block_rows));
    }
  }
}

int32_t RecordedPlaces::slots_of(const Trace& trace) {
  int32_t slots = 0;
  const auto& instances = trace.data().instances;
  for (size_t i = 4; i < instances.size(); i += 6) slots = std::max(slots, instances[i] + 1);
  return slots;
}

RecordedPlaces::RecordedPlaces(const Trace& trace, const UltraEpDims& dims)
    : trace_(&trace), dims_(dims) {
  const auto& instances = trace.data().instances;
  const auto cell_of = [&](int64_t row) {
    return int64_t{instances[row * 6]} * trace.num_layers() + instances[row * 6 + 1];
  };
  const auto rows = static_cast<int64_t>(instances.size() / 6);
  cell_begin_.assign(trace.num_steps() * trace.num_layers() + 1, 0);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t* instance = &instances[row * 6];
    MF_CHECK(instance[4] >= 0 || instance[3] == instance[2] / dims.owned(), "instance ", row,
             " of the trace: rank ", instance[3], " owns expert ", instance[2],
             ", UltraEP's layout has it on rank ", instance[2] / dims.owned());
    ++cell_begin_[cell_of(row) + 1];
  }
  std::partial_sum(cell_begin_.begin(), cell_begin_.end(), cell_begin_.begin());
  order_.resize(rows);
  std::vector<int64_t> next(cell_begin_.begin(), cell_begin_.end() - 1);
  for (int64_t row = 0; row < rows; ++row) order_[next[cell_of(row)]++] = row;
}

void RecordedPlaces::fill(int64_t step, int32_t layer_idx, const LoadTable& loads,
                          std::span<int32_t> places) const {
  std::fill(places.begin(), places.end(), 0);
  const auto& instances = trace_->data().instances;
  std::vector<int64_t> rows_of(dims_.num_experts, 0);
  const int64_t cell = step * trace_->num_layers() + layer_idx;
  for (int64_t i = cell_begin_[cell]; i < cell_begin_[cell + 1]; ++i) {
    const int32_t* instance = &instances[order_[i] * 6];
    const int64_t place = instance[4] < 0 ? owner_place(dims_, instance[2])
                                          : slot_place(dims_, instance[3], instance[4]);
    rows_of[instance[2]] += instance[5];
    MF_CHECK(rows_of[instance[2]] <= loads.totals()[instance[2]], "step ", step, ", layer idx ",
             layer_idx, ", expert ", instance[2], ": its instances have more than its ",
             loads.totals()[instance[2]], " rows");
    places[place] += instance[5];
  }
  for (int32_t e = 0; e < dims_.num_experts; ++e) {
    MF_CHECK(rows_of[e] == loads.totals()[e], "step ", step, ", layer idx ", layer_idx, ", expert ",
             e, ": its instances have ", rows_of[e], " of its ", loads.totals()[e], " rows");
  }
}

UltraEpWriter::UltraEpWriter(const Trace& trace, const UltraEpDims& dims, std::string trace_name,
                             FillPlaces fill)
    : trace_(&trace), dims_(dims), trace_name_(std::move(trace_name)), fill_(std::move(fill)) {}

int64_t UltraEpWriter::num_records() const {
  return trace_->num_steps() * trace_->num_layers();
}

int64_t UltraEpWriter::num_chunks() const {
  return (num_records() + kChunkRecords - 1) / kChunkRecords;
}

nlohmann::ordered_json UltraEpWriter::metadata() const {
  const TraceMeta& meta = trace_->meta();
  return {{"schema", kUltraEpSchema},
          {"trace_id", trace_name_},
          {"ep_group_id", "0"},
          {"ep_rank", 0},
          {kEpSize, dims_.num_ranks},
          {"num_layers", *std::max_element(meta.layers.begin(), meta.layers.end()) + 1},
          {"max_microbatches", 1},
          {kRankOwned, dims_.owned()},
          {kRankSlots, dims_.slots},
          {kRankPlaces, dims_.owned() + dims_.slots},
          {kExperts, dims_.num_experts},
          {kPlaces, dims_.places()},
          {"nvl_domain_size", dims_.num_ranks},
          {"placement_mode", "quota"},
          {"writer_group_rank", 0},
          {"max_pending_records", 16},
          {"record_interval", 1},
          {"flush_interval", kChunkRecords},
          {"created_unix", 0.0},
          {"exported_by", "megaflux"},
          {"model", meta.model},
          {"origin", meta.origin},
          {"licence", meta.licence}};
}

std::vector<std::byte> UltraEpWriter::chunk(int64_t number) const {
  const int64_t first = number * kChunkRecords;
  const int64_t count = std::min(kChunkRecords, num_records() - first);
  std::vector<int32_t> layers;
  std::vector<int64_t> microbatches;
  std::vector<int32_t> pre;
  std::vector<int32_t> post(count * dims_.places());
  for (int64_t record = first; record < first + count; ++record) {
    const int64_t step = record / trace_->num_layers();
    const auto layer_idx = static_cast<int32_t>(record % trace_->num_layers());
    const LoadTable loads = trace_->loads(step, layer_idx, dims_.num_ranks);
    layers.push_back(trace_->meta().layers[layer_idx]);
    microbatches.push_back(trace_->meta().first_step + step);
    pre.insert(pre.end(), loads.totals().begin(), loads.totals().end());
    fill_(step, layer_idx, loads,
          std::span(post).subspan((record - first) * dims_.places(), dims_.places()));
  }
  auto object = metadata();
  object["chunk_id"] = number;
  object["records"] = count;
  object["dropped_records"] = 0;
  const std::vector<ZipInput> entries = {
      text_entry("metadata", ascii_json(object, -1)),
      array_entry("layers", NpyType::kInt32, {count}, layers),
      array_entry("virtual_layers", NpyType::kInt32, {count}, layers),
      array_entry("microbatches", NpyType::kInt64, {count}, microbatches),
      array_entry("pre_logical_loads", NpyType::kInt32, {count, dims_.num_experts}, pre),
      array_entry("post_physical_loads", NpyType::kInt32, {count, dims_.places()}, post)};
  return encode_stored_zip(entries);
}

std::string UltraEpWriter::manifest() const {
  auto object = metadata();
  object["chunks"] = num_chunks();
  object["dropped_records"] = 0;
  return ascii_json(object, 2) + "\n";
}

void write_ultraep(const std::string& option, const UltraEpWriter& writer,
                   const std::string& prefix, const std::function<void(int64_t)>& at_chunk) {
  std::error_code ignored;
  const std::string beyond = chunk_name(prefix, writer.num_chunks());
  MF_CHECK(!fs::exists(beyond, ignored), option, ": ", beyond,
           ": a chunk of an earlier trace of this name; remove its files or choose another name");
  std::vector<StagedFile> files;
  const auto stage = [&](const std::string& name, std::span<const std::byte> bytes) {
    files.emplace_back(name, option + ": " + name);
    files.back().write(bytes);
  };
  for (int64_t number = 0; number < writer.num_chunks(); ++number) {
    at_chunk(number);
    stage(chunk_name(prefix, number), writer.chunk(number));
  }
  const std::string manifest = writer.manifest();
  stage(std::string(prefix).append(kManifestSuffix), std::as_bytes(std::span(manifest)));
  for (StagedFile& file : files) file.put_in_place();
}

}  // namespace megaflux::convert
