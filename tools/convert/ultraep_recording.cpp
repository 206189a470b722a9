#include "convert/ultraep_recording.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"
#include "megaflux/trace/npz_file.h"

namespace megaflux::convert {
namespace {

constexpr int64_t kMaxMetadataLetters = int64_t{1} << 20;
constexpr int64_t kMaxMicrobatch = int64_t{1} << 40;

void append_utf8(std::string& text, char32_t point) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0 | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0 | (point >> 12));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | (point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

// A text of NumPy as UTF-8; NUL letters fill it up at its end.
std::string text_of(const NpzFile& file, const std::string& array) {
  const NpzArray stored = file.array(array);
  const std::string where = file.where(array);
  const NpyView& view = stored.view;
  MF_CHECK(view.type == NpyType::kText && view.shape.size() == 1, where, ": dtype ",
           npy_descr(view.type), ", shape ", shape_text(view.shape), ", one text expected");
  MF_CHECK(view.shape[0] <= kMaxMetadataLetters, where, ": ", view.shape[0], " letters, at most ",
           kMaxMetadataLetters);
  std::string text;
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    char32_t point = 0;
    std::memcpy(&point, view.payload.data() + i * 4, 4);
    MF_CHECK(point < 0x110000 && (point < 0xd800 || point >= 0xe000), where, ": letter ", i,
             " is none of Unicode");
    append_utf8(text, point);
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

// An array of one type and shape; -1 = any extent.
NpzArray typed_array(const NpzFile& file, const std::string& array, NpyType type,
                     std::vector<int64_t> shape) {
  NpzArray stored = file.array(array);
  const NpyView& view = stored.view;
  bool fits = view.type == type && view.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] == -1 || shape[i] == view.shape[i];
  }
  MF_CHECK(fits, file.where(array), ": ", npy_descr(view.type), " ", shape_text(view.shape), ", ",
           npy_descr(type), " ", shape_text(shape), " expected");
  return stored;
}

int64_t number_at(const NpyView& view, int64_t index) {
  int64_t value = 0;
  std::memcpy(&value, view.payload.data() + index * 8, 8);
  return value;
}

}  // namespace

void UltraEpReader::read_dims(const std::string& metadata, const std::string& name) {
  const auto object = parse_ultraep_json(metadata, name);
  UltraEpDims dims{
      .num_experts = static_cast<int32_t>(ultraep_number(object, kExperts, {1, kMaxExperts}, name)),
      .num_ranks = static_cast<int32_t>(ultraep_number(object, kEpSize, {1, kMaxRanks}, name))};
  const int64_t owned = ultraep_number(object, kRankOwned, {1, kMaxExperts}, name);
  MF_CHECK(owned * dims.num_ranks == dims.num_experts, name, ": ", kExperts, ": ", dims.num_experts,
           ", ", owned, " on each of ", dims.num_ranks, " ranks expected");
  dims.slots = static_cast<int32_t>(
      ultraep_number(object, kRankPlaces, {owned, owned + kMaxReplicaSlots}, name) - owned);
  MF_CHECK(!dims_ || *dims_ == dims, name,
           ": other numbers of ranks, experts or slots than in the chunks before it");
  dims_ = dims;
}

void UltraEpReader::add_rows(const NumberArray& pre, const NumberArray& post,
                             const std::string& name) {
  const auto check_rows = [&](const NumberArray& rows, const char* array) {
    const auto negative = std::find_if(rows.values.begin(), rows.values.end(),
                                       [](int32_t count) { return count < 0; });
    MF_CHECK(negative == rows.values.end(), name, ": array ", array, ": ", *negative,
             " is negative");
  };
  check_rows(pre, "pre_logical_loads");
  check_rows(post, "post_physical_loads");
  pre_.insert(pre_.end(), pre.values.begin(), pre.values.end());
  const int64_t places = dims_->places() / dims_->num_ranks;
  for (size_t i = 0; i < post.values.size(); i += static_cast<size_t>(places)) {
    int64_t sum = 0;
    for (int64_t place = 0; place < places; ++place) sum += post.values[i + place];
    MF_CHECK(sum <= std::numeric_limits<int32_t>::max(), name, ": array post_physical_loads: ", sum,
             " rows on a rank, at most ", std::numeric_limits<int32_t>::max());
    rank_rows_.push_back(static_cast<int32_t>(sum));
  }
}

void UltraEpReader::add_chunk(std::span<const std::byte> bytes, const std::string& name) {
  const NpzFile file(bytes, name);
  read_dims(text_of(file, "metadata"), name + ": metadata");
  const auto stored_layers = typed_array(file, "layers", NpyType::kInt32, {-1});
  const int64_t count = stored_layers.view.shape[0];
  (void)typed_array(file, "virtual_layers", NpyType::kInt32, {count});
  const auto microbatches = typed_array(file, "microbatches", NpyType::kInt64, {count});
  const NumberArray layers = number_array(stored_layers.view, file.where("layers"));
  const auto rows = [&](const std::string& array, int64_t width) {
    const auto stored = typed_array(file, array, NpyType::kInt32, {count, width});
    return number_array(stored.view, file.where(array));
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t microbatch = number_at(microbatches.view, i);
    MF_CHECK(microbatch >= 0 && microbatch <= kMaxMicrobatch, file.where("microbatches"),
             ": element ", i, ": ", microbatch, " is outside [0, ", kMaxMicrobatch, "]");
    records_.push_back({microbatch, layers.values[i], records_.size()});
  }
  add_rows(rows("pre_logical_loads", dims_->num_experts),
           rows("post_physical_loads", dims_->places()), name);
}

Recording UltraEpReader::take(const std::string& name) {
  MF_CHECK(!records_.empty(), name, ": no record in it");
  const UltraEpDims dims = *dims_;
  std::vector<Record> records = std::move(records_);
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::pair(a.microbatch, a.layer) < std::pair(b.microbatch, b.layer);
  });
  std::vector<int32_t> layers;
  for (const Record& record : records) layers.push_back(record.layer);
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  Recording recording;
  TraceData& data = recording.data;
  data.meta.num_experts = dims.num_experts;
  data.meta.num_ranks = dims.num_ranks;
  data.meta.layers = layers;
  data.meta.time_ordered = true;
  data.load_ranks = 1;
  int64_t incomplete = 0;
  for (size_t first = 0; first < records.size();) {
    size_t last = first;
    while (last < records.size() && records[last].microbatch == records[first].microbatch) {
      MF_CHECK(last == first || records[last].layer != records[last - 1].layer, name, ": layer ",
               records[last].layer, ", microbatch ", records[last].microbatch, " stands twice");
      ++last;
    }
    const bool is_complete = last - first == layers.size();
    for (size_t i = first; is_complete && i < last; ++i) {
      const auto pre = pre_.begin() + static_cast<int64_t>(records[i].index) * dims.num_experts;
      const auto post =
          rank_rows_.begin() + static_cast<int64_t>(records[i].index) * dims.num_ranks;
      data.loads.insert(data.loads.end(), pre, pre + dims.num_experts);
      data.realised_rows.insert(data.realised_rows.end(), post, post + dims.num_ranks);
    }
    data.num_steps += is_complete;
    incomplete += !is_complete;
    first = last;
  }
  MF_CHECK(data.num_steps >= 1, name, ": none of ", incomplete,
           " microbatches has a record of all ", layers.size(), " layers");
  if (incomplete > 0) {
    recording.notes.push_back(std::to_string(incomplete) + " of " +
                              std::to_string(data.num_steps + incomplete) +
                              " microbatches lack a layer and are left out");
  }
  *this = {};
  return recording;
}

}  // namespace megaflux::convert
