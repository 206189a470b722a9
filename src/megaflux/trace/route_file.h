// Route files: a route family's routing, written once, which every executor and baseline reads.
//
// Example: make_routes for zipf-k3, E = 128, K = 8, P = 8, T = 4096, seed 1 becomes
// route_zipf-k3_E128_K8_P8_T4096.npz: a stored trace of one step and one layer with topk_ids
// [32768, 1, 8], rank_offsets {0, 4096, ...} and topk_weights. read_trace(path).routing(0, 0, 8)
// gives it back bit for bit.
#pragma once

#include <string>
#include <vector>

#include "megaflux/moe/route_family.h"
#include "megaflux/trace/trace.h"

namespace megaflux {

// "route_<family>_E<E>_K<K>_P<P>_T<T>.npz", with "_seed<n>" before ".npz" for seeds other than 1.
std::string route_file_name(const RouteRequest& request);

// The routing as a trace; `origin` and `licence` say where recorded counts came from, "" for
// generated families.
Trace route_trace(const RouteRequest& request, const RouteSet& set, const TraceMeta& source = {});

// make_routes, checked and written into `folder`; returns the path. A file that is there already is
// read back and returned if it holds this very routing, and is an error otherwise.
std::string route_file(const std::string& folder, const RouteRequest& request,
                       const TraceMeta& source = {});

// All rows of counts in a trace with the request's E, [S x L, E]: what real-* families choose from.
std::vector<int32_t> recorded_counts(const Trace& trace);

}  // namespace megaflux
