// UltraEP's load traces out: a manifest and chunks that its viewer opens. Equal traces give equal
// bytes.
//
// Example, E = 4, G = 2, R = 1: rank 0 owns experts 0 and 1 and has one slot, so a record has
// pre_logical_loads {9, 2, 3, 2} and, with four rows of expert 0 given to the slot of rank 1,
// post_physical_loads {5, 2, 0, 3, 2, 4}.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convert/ultraep_format.h"
#include "megaflux/moe/plan.h"
#include "megaflux/trace/trace.h"

namespace megaflux::convert {

// Throws kBadInput unless the ranks divide the experts of the trace, as UltraEP's layout needs.
UltraEpDims ultraep_dims(const Trace& trace, int32_t num_ranks, int32_t slots);

// Fills the rows of every place, [G (M + R)], of a step and layer; `loads` are that cell's.
using FillPlaces = std::function<void(int64_t step, int32_t layer_idx, const LoadTable& loads,
                                      std::span<int32_t> places)>;

// Every expert at its owner.
void fixed_places(const UltraEpDims& dims, const LoadTable& loads, std::span<int32_t> places);
// As the plan gives them out; its owners are the contiguous ones, its slots at most dims.slots.
void plan_places(const UltraEpDims& dims, const Plan& plan, const LoadTable& loads,
                 std::span<int32_t> places);

// The instances that the trace recorded, for FillPlaces. Borrows the trace.
class RecordedPlaces {
 public:
  // Slots a rank that the instances need.
  static int32_t slots_of(const Trace& trace);
  // Throws kBadInput if an owner is not where UltraEP's layout has it.
  RecordedPlaces(const Trace& trace, const UltraEpDims& dims);
  // Throws kBadInput, naming step, layer and expert, if instances and loads disagree.
  void fill(int64_t step, int32_t layer_idx, const LoadTable& loads,
            std::span<int32_t> places) const;

 private:
  const Trace* trace_;
  UltraEpDims dims_;
  std::vector<int64_t> cell_begin_;  // [S L + 1], positions in order_
  std::vector<int64_t> order_;       // rows of the instances array, by cell
};

class UltraEpWriter {
 public:
  static constexpr int64_t kChunkRecords = 1024;

  // `trace_name` is what UltraEP calls the trace id. Borrows the trace.
  UltraEpWriter(const Trace& trace, const UltraEpDims& dims, std::string trace_name,
                FillPlaces fill);
  int64_t num_chunks() const;
  std::vector<std::byte> chunk(int64_t number) const;
  std::string manifest() const;

 private:
  nlohmann::ordered_json metadata() const;
  int64_t num_records() const;

  const Trace* trace_;
  UltraEpDims dims_;
  std::string trace_name_;
  FillPlaces fill_;
};

// Writes PREFIX.chunk000000.npz, ... and at last PREFIX.manifest.json; `at_chunk` is called before
// each chunk. All are put in their places when all are written: on an error nothing of it stays,
// and what was there before does. Throws kBadInput naming `option` and the file if one cannot be
// written, or if a chunk of an earlier, longer trace of that name would be taken for one of this.
void write_ultraep(const std::string& option, const UltraEpWriter& writer,
                   const std::string& prefix, const std::function<void(int64_t)>& at_chunk);

}  // namespace megaflux::convert
