#include "convert/import.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "convert/csv_recording.h"
#include "convert/json_arrays.h"
#include "convert/named_arrays.h"
#include "convert/npy_recording.h"
#include "convert/ultraep_recording.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/npz_file.h"
#include "megaflux/trace/whole_file.h"

namespace megaflux::convert {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<Format, std::string_view>, 6> kFormats = {
    {{Format::kAuto, "auto"},
     {Format::kUltraEp, "ultraep"},
     {Format::kSglang, "sglang"},
     {Format::kVllm, "vllm"},
     {Format::kNpy, "npy"},
     {Format::kCsv, "csv"}}};
constexpr std::array<std::pair<Kind, std::string_view>, 4> kKinds = {
    {{Kind::kAuto, "auto"},
     {Kind::kCounts, "counts"},
     {Kind::kCountsBySource, "counts-by-source"},
     {Kind::kTopk, "topk"}}};

template <typename Value, size_t N>
Value parse_name(const std::array<std::pair<Value, std::string_view>, N>& names,
                 std::string_view name, std::string_view what) {
  std::string known;
  for (const auto& [value, known_name] : names) {
    if (known_name == name) return value;
    known.append(known.empty() ? "" : "|").append(known_name);
  }
  throw_error(ErrorCode::kBadInput, what, ": '", name, "' is unknown, one of ", known, " expected");
}

template <typename Value, size_t N>
std::string_view name_of(const std::array<std::pair<Value, std::string_view>, N>& names,
                         Value value) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const auto& entry) { return entry.first == value; });
  return found == names.end() ? "" : found->second;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

void refuse_pickle(std::string_view text, const std::string& name) {
  // torch.save writes a zip file whose first entry is ARCHIVE/data.pkl, once a bare pickle.
  const bool is_archive =
      text.starts_with("PK") && text.substr(0, 512).find("data.pkl") != std::string_view::npos;
  const bool is_pickle = text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
  MF_CHECK(
      !is_archive && !is_pickle, name,
      ": a PyTorch file; pickles execute code and are not read. Load it where you trust it and "
      "save its tensors as JSON or .npy (docs/trace_format.md shows how)");
}

// Reads as the file's own beginning says, or as the settings ask.
Recording read_one(std::span<const std::byte> bytes, const ImportSettings& settings,
                   const std::string& name, std::string& read_as) {
  const std::string_view text = text_of(bytes);
  refuse_pickle(text, name);
  const Format format = settings.format;
  const bool is_named =
      format == Format::kAuto || format == Format::kSglang || format == Format::kVllm;
  if (text.starts_with("PK")) {
    const bool is_chunk = NpzFile(bytes, name).has("pre_logical_loads");
    if (format == Format::kUltraEp || (format == Format::kAuto && is_chunk)) {
      read_as = "UltraEP load trace";
      UltraEpReader reader;
      reader.add_chunk(bytes, name);
      return reader.take(name);
    }
    MF_CHECK(is_named, name, ": an .npz file, --format ", format_name(format), " given");
    read_as = "named arrays (npz)";
    return npz_recording(bytes, settings, name);
  }
  if (format == Format::kNpy || (format == Format::kAuto && text.starts_with("\x93NUMPY"))) {
    read_as = "array (npy)";
    return npy_recording(bytes, settings, name);
  }
  if (format == Format::kSglang || format == Format::kVllm ||
      (format == Format::kAuto && is_json(text))) {
    read_as = "named arrays (JSON)";
    return json_recording(text, settings, name);
  }
  MF_CHECK(format != Format::kUltraEp, name,
           ": no chunk of an UltraEP load trace; name its .manifest.json or a .chunk000000.npz");
  read_as = "text (CSV)";
  return csv_recording(text, settings, name);
}

// The trace's name in "TRACE.chunk000012.npz"; empty if `path` is no such name.
std::string trace_of_chunk(const std::string& path) {
  constexpr size_t kTail = std::string_view(".chunk000000.npz").size();
  if (path.size() <= kTail || !path.ends_with(".npz")) return {};
  const std::string trace = path.substr(0, path.size() - kTail);
  const std::string_view tail = std::string_view(path).substr(trace.size());
  const std::string_view digits = tail.substr(6, 6);
  const bool is_chunk =
      tail.starts_with(".chunk") &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_chunk ? trace : std::string{};
}

std::vector<std::string> chunks_of(const std::string& trace) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (int64_t number = 0; fs::exists(chunk_name(trace, number), ignored); ++number) {
    files.push_back(chunk_name(trace, number));
  }
  return files;
}

constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 20;

std::vector<std::string> manifest_files(const std::string& path) {
  const auto bytes = read_whole_file(path, kMaxManifestBytes);
  const auto manifest = parse_ultraep_json(text_of(bytes), path);
  // Written before the first chunk as well, so a recording that was killed counts 0.
  const int64_t chunks = ultraep_number(manifest, "chunks", {0, 999999}, path);
  auto files = chunks_of(path.substr(0, path.size() - kManifestSuffix.size()));
  const auto found = static_cast<int64_t>(files.size());
  MF_CHECK(found >= 1 && found >= chunks, path, ": names ", chunks, " chunks, ", found,
           " are there beside it");
  return files;
}

}  // namespace

std::string_view format_name(Format format) {
  return name_of(kFormats, format);
}
Format parse_format(std::string_view name) {
  return parse_name(kFormats, name, "format");
}
std::string_view kind_name(Kind kind) {
  return name_of(kKinds, kind);
}
Kind parse_kind(std::string_view name) {
  return parse_name(kKinds, name, "kind");
}

std::vector<std::string> recording_files(const std::string& path) {
  if (path.ends_with(kManifestSuffix)) return manifest_files(path);
  const std::string trace = trace_of_chunk(path);
  if (trace.empty()) return {path};
  const auto files = chunks_of(trace);
  // A chunk whose earlier ones are gone is read alone.
  return std::find(files.begin(), files.end(), path) == files.end() ? std::vector<std::string>{path}
                                                                    : files;
}

Import import_bytes(std::span<const std::byte> bytes, const ImportSettings& settings,
                    const std::string& name) {
  std::string read_as;
  Recording recording = read_one(bytes, settings, name, read_as);
  auto notes = std::move(recording.notes);
  return {.trace = finish_recording(std::move(recording), settings, name),
          .read_as = std::move(read_as),
          .notes = std::move(notes)};
}

Import import_recording(const std::vector<std::string>& files, const ImportSettings& settings,
                        const std::function<void(size_t)>& at_file) {
  if (files.size() == 1) {
    at_file(0);
    return import_bytes(read_whole_file(files.front(), kMaxJsonBytes), settings, files.front());
  }
  MF_CHECK(settings.format == Format::kAuto || settings.format == Format::kUltraEp, files.front(),
           ": a chunk of an UltraEP load trace, --format ", format_name(settings.format), " given");
  UltraEpReader reader;
  for (size_t i = 0; i < files.size(); ++i) {
    at_file(i);
    reader.add_chunk(read_whole_file(files[i], kMaxZipBytes), files[i]);
  }
  Recording recording = reader.take(files.front());
  auto notes = std::move(recording.notes);
  return {.trace = finish_recording(std::move(recording), settings, files.front()),
          .read_as = "UltraEP load trace, " + std::to_string(files.size()) + " chunks",
          .notes = std::move(notes)};
}

}  // namespace megaflux::convert
