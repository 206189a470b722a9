// A library with NCCL's names in which nothing happens but what a test asks for. The test opens the
// same file and finds `fake_nccl` in it.
#pragma once

#include <cstddef>
#include <cstdint>

struct FakeNccl {
  int version = 22809;
  int polls_until_done = 0;  // of each call on a communicator; -1 = it never ends
  int result = 0;            // what it ends with
  int num_polls = 0;
  int num_aborts = 0;
  // As the last ncclCommInitRankConfig was told.
  size_t config_bytes = 0;
  uint32_t magic = 0;
  uint32_t config_version = 0;
  int32_t blocking = -1;
  int rank = -1;
};
