// SGLang's per_pass and per_token recordings: a list of records, one a forward pass and rank.
//
// Example: {"records": [{"forward_pass_id": 7, "rank": 0, "global_physical_count": [[3, 1, 2]]}],
//           "last_physical_to_logical_map": [[0, 1, 0]]} is one step with loads {5, 1}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/json_arrays.h"
#include "convert/physical_map.h"
#include "convert/recording.h"

namespace megaflux::convert {

// True for the numbers of a record that are read beside its arrays.
bool is_record_number(std::string_view key);

// With ids (topk_ids_of_layer) in every record: one step a record, all of one rank. Else counts
// (global_physical_count); records of one forward pass are one step and add up. Throws kBadInput,
// opening with `name` and the record.
Recording records_recording(std::vector<ArraysByName> records, const PhysicalMap& map,
                            const ImportSettings& settings, const std::string& name);

}  // namespace megaflux::convert
