// Recordings of other systems in: which reader a file is for, and the trace that it becomes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/recording.h"

namespace megaflux::convert {

// "auto", "ultraep", "sglang", "vllm", "npy", "csv".
std::string_view format_name(Format format);
Format parse_format(std::string_view name);  // throws kBadInput listing the names
// "auto", "counts", "counts-by-source", "topk".
std::string_view kind_name(Kind kind);
Kind parse_kind(std::string_view name);

// The files that the recording at `path` is made of, in order: of UltraEP's, all chunks, whether
// `path` is the manifest or one of the chunks; else `path` alone. Throws kBadInput: unreadable, a
// manifest without chunks or with more chunks than there are files.
std::vector<std::string> recording_files(const std::string& path);

struct Import {
  Trace trace;
  std::string read_as;             // for people: "UltraEP load trace, 12 chunks"
  std::vector<std::string> notes;  // what was left out, and why
};

// Reads the files of recording_files; `at_file` is called before each with its index. Throws
// kBadInput naming file, position, value and limit. PyTorch files are refused: they are pickles,
// and reading one executes what it says.
Import import_recording(const std::vector<std::string>& files, const ImportSettings& settings,
                        const std::function<void(size_t)>& at_file);

// The same of one file in memory; UltraEP's of one chunk.
Import import_bytes(std::span<const std::byte> bytes, const ImportSettings& settings,
                    const std::string& name);

}  // namespace megaflux::convert
