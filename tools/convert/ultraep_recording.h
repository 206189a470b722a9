// UltraEP's load traces in.
//
// A microbatch becomes a step if every layer of the trace has a record of it; others were dropped
// by the recorder or cut off at the end, and are left out. pre_logical_loads become loads without
// sources, post_physical_loads, added up by rank, realised_rows: they are what UltraEP planned, and
// it rounds each source's share by itself. Which expert a slot held is not in the file, so there
// are no instances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convert/recording.h"
#include "convert/ultraep_format.h"

namespace megaflux::convert {

class UltraEpReader {
 public:
  // Throws kBadInput, opening with `name`: arrays missing or of other types and axes than
  // ultraep_format.h lists, metadata that differs from the chunk before, negative rows.
  void add_chunk(std::span<const std::byte> bytes, const std::string& name);

  // Throws kBadInput, opening with `name`: no record, a layer and microbatch twice, no microbatch
  // that all layers have. The reader is empty afterwards.
  Recording take(const std::string& name);

 private:
  struct Record {
    int64_t microbatch;
    int32_t layer;
    size_t index;  // of its rows in pre_ and post_
  };
  void read_dims(const std::string& metadata, const std::string& name);
  void add_rows(const NumberArray& pre, const NumberArray& post, const std::string& name);

  std::optional<UltraEpDims> dims_;
  std::vector<Record> records_;
  std::vector<int32_t> pre_;        // [records, E]
  std::vector<int32_t> rank_rows_;  // [records, G]
};

}  // namespace megaflux::convert
