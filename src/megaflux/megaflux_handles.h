// What both halves of the C ABI share: the handles, and the guard that keeps exceptions inside. Not
// for callers.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <span>

#include "megaflux/base/check.h"
#include "megaflux/megaflux.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux::c_abi {

// One outcome of planning; a plan handle and a planner swap theirs, so a failed call changes
// nothing.
struct Outcome {
  Plan plan;  // empty if there are orphans
  PlanReport report;
  LoadTable loads;
  std::shared_ptr<const PlanConfig> config;  // outlives the planner; null before the first plan
};

megaflux_status status_of(ErrorCode code);

// Writes status and words to `error`, unless it is null or of an unknown version; returns the
// status.
megaflux_status fail(megaflux_error* error, megaflux_status status, const char* words);

// Runs the body of an entry point, which returns a status; nothing that it throws gets out.
template <typename Body>
megaflux_status guarded(megaflux_error* error, Body&& body) noexcept {
  try {
    MF_CHECK(error == nullptr || error->struct_bytes == sizeof(megaflux_error),
             "error: struct_bytes does not belong to a version of megaflux_error");
    return body();
  } catch (const Error& caught) {
    return fail(error, status_of(caught.code()), caught.what());
  } catch (const std::bad_alloc&) {
    return fail(error, MEGAFLUX_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& caught) {
    return fail(error, MEGAFLUX_INTERNAL, caught.what());
  } catch (...) {
    return fail(error, MEGAFLUX_INTERNAL, "an exception of an unknown type");
  }
}

inline void require(const void* pointer, const char* name) {
  MF_CHECK(pointer != nullptr, name, ": is null");
}

inline void require_size(size_t given, size_t known, const char* name) {
  MF_CHECK(given == known, name, ": struct_bytes ", given, " is no version this library knows, ",
           known, " is");
}

inline void require_zero(uint32_t value, const char* name) {
  MF_CHECK(value == 0, name, ": ", value, " must be 0");
}

template <typename Struct>
void require_struct(const Struct* pointer, const char* name) {
  require(pointer, name);
  require_size(pointer->struct_bytes, sizeof(Struct), name);
}

template <typename Enum>
Enum enum_of(int32_t value, Enum last, const char* name) {
  MF_CHECK(value >= 0 && value <= static_cast<int32_t>(last), name, ": ", value, " is outside [0, ",
           static_cast<int32_t>(last), "]");
  return static_cast<Enum>(value);
}

}  // namespace megaflux::c_abi

struct megaflux_plan {
  megaflux::c_abi::Outcome outcome;
};

struct megaflux_planner {
  std::shared_ptr<const megaflux::PlanConfig> config;
  std::unique_ptr<megaflux::Planner> planner;
  megaflux::c_abi::Outcome spare;
};
