#include "megaflux/comm/nccl_library.h"

#include <dlfcn.h>

#include <thread>
#include <type_traits>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

constexpr const char* kLibraryName = "libnccl.so.2";
constexpr int32_t kLeastVersion = 22800;
constexpr int32_t kVersionLimit = 30000;
constexpr int kUint8 = 1;       // ncclUint8
constexpr int kInProgress = 7;  // ncclInProgress

void* open_library(const std::string& path) {
  // The process's own copy first: two NCCLs in one process disagree about its memory.
  if (void* const loaded = dlopen(kLibraryName, RTLD_LAZY | RTLD_NOLOAD)) return loaded;
  const std::string wanted = path.empty() ? kLibraryName : path;
  void* const library = dlopen(wanted.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw_error(ErrorCode::kUnsupported, "NCCL: no ", kLibraryName,
                " is loaded in this process, and ", wanted,
                " cannot be opened: ", reason == nullptr ? "no reason given" : reason);
  }
  return library;
}

template <typename Function>
void find(void* library, const std::string& path, const char* name, Function& function) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw_error(ErrorCode::kUnsupported, "NCCL: ", path, " has no function ", name);
  }
  static_assert(std::is_pointer_v<Function>);
  function = reinterpret_cast<Function>(symbol);
}

// The file that holds the function.
std::string path_of(void* function) {
  Dl_info info = {};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : kLibraryName;
}

}  // namespace

std::string nccl_version_text(int32_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void check_nccl_version(int32_t version, const std::string& path) {
  if (version >= kLeastVersion && version < kVersionLimit) return;
  throw_error(ErrorCode::kUnsupported, "NCCL: ", path, " is version ", nccl_version_text(version),
              "; needed is ", nccl_version_text(kLeastVersion), " or later, below ",
              nccl_version_text(kVersionLimit));
}

NcclLibrary::NcclLibrary(const std::string& path) {
  void* const library = open_library(path);
  find(library, path.empty() ? kLibraryName : path, "ncclGetVersion", nccl_.ncclGetVersion);
  path_ = path_of(reinterpret_cast<void*>(nccl_.ncclGetVersion));
  find(library, path_, "ncclGetErrorString", nccl_.ncclGetErrorString);
  int version = 0;
  check(nccl_.ncclGetVersion(&version), "ncclGetVersion");
  version_ = version;
  check_nccl_version(version_, path_);
  find(library, path_, "ncclGetUniqueId", nccl_.ncclGetUniqueId);
  find(library, path_, "ncclCommInitRankConfig", nccl_.ncclCommInitRankConfig);
  find(library, path_, "ncclCommGetAsyncError", nccl_.ncclCommGetAsyncError);
  find(library, path_, "ncclCommAbort", nccl_.ncclCommAbort);
  find(library, path_, "ncclCommCount", nccl_.ncclCommCount);
  find(library, path_, "ncclCommUserRank", nccl_.ncclCommUserRank);
  find(library, path_, "ncclAllGather", nccl_.ncclAllGather);
}

void NcclLibrary::check(int result, const char* call) const {
  if (result == 0) return;
  throw_error(ErrorCode::kInternal, call, ": ", nccl_.ncclGetErrorString(result), " (NCCL ",
              nccl_version_text(version_), ", ", path_, ")");
}

NcclUniqueId NcclLibrary::make_unique_id() const {
  NcclUniqueId id;
  check(nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

// A call on a communicator that does not block has ended when its result says so. False if it has
// not by the deadline.
bool NcclLibrary::await(Comm comm, int result, const char* call,
                        std::chrono::milliseconds deadline) const {
  const auto begin = std::chrono::steady_clock::now();
  while (result == kInProgress) {
    if (std::chrono::steady_clock::now() - begin > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    check(nccl_.ncclCommGetAsyncError(comm, &result), "ncclCommGetAsyncError");
  }
  check(result, call);
  return true;
}

NcclComm* NcclLibrary::make_comm(const NcclUniqueId& id, int32_t num_ranks, int32_t rank,
                                 std::chrono::milliseconds deadline) const {
  NcclComm* comm = nullptr;
  Config config;
  const int result = nccl_.ncclCommInitRankConfig(&comm, num_ranks, id, rank, &config);
  try {
    if (!await(comm, result, "ncclCommInitRankConfig", deadline)) {
      throw_error(ErrorCode::kTimeout, "rank ", rank, " waited ", deadline.count(), " ms for all ",
                  num_ranks, " ranks of a new communicator: a rank is missing or stuck");
    }
  } catch (...) {
    if (comm != nullptr) abort_comm(comm);
    throw;
  }
  return comm;
}

void NcclLibrary::abort_comm(NcclComm* comm) const noexcept {
  nccl_.ncclCommAbort(comm);  // what it answers helps nobody
}

int32_t NcclLibrary::num_ranks_of(NcclComm* comm) const {
  int count = 0;
  check(nccl_.ncclCommCount(comm, &count), "ncclCommCount");
  return count;
}

int32_t NcclLibrary::rank_of(NcclComm* comm) const {
  int rank = 0;
  check(nccl_.ncclCommUserRank(comm, &rank), "ncclCommUserRank");
  return rank;
}

bool NcclLibrary::all_gather(const Gather& gather, NcclComm* comm, NcclStream* stream,
                             std::chrono::milliseconds deadline) const {
  const int result =
      nccl_.ncclAllGather(gather.send, gather.receive, gather.bytes, kUint8, comm, stream);
  return await(comm, result, "ncclAllGather", deadline);
}

}  // namespace megaflux
