// The forward of a layer, as one side of a comparison: a process that runs batches of
// launches when it is told to, and says how long they took. Who tells it runs the other side in
// between (bench/baselines/torch_forward.py).
//
//   forward_speed H I E K T SMS [P DEVICES]
//
// Reads lines and answers each with milliseconds a launch:
//   gemms N   N launches of the two GEMMs alone, over rows that a whole launch has left in the pool
//   layer N   N whole launches, each behind a head
#include <cstdio>
#include <iostream>
#include <string>

#include "random_layer.cuh"

namespace megaflux::bench {
namespace {

int serve(int argc, char** argv) {
  if (argc != 7 && argc != 9) {
    std::fprintf(stderr, "%s H I E K T SMS (0 = all) [P DEVICES]\n", argv[0]);
    return 2;
  }
  Placement placement;
  if (argc == 9) placement = {std::atoi(argv[7]), std::atoi(argv[8])};
  RandomLayer layer(shape_of(argv + 1), std::atoi(argv[5]), std::atoi(argv[6]), placement);
  std::printf("ready\n");
  std::fflush(stdout);
  std::string what;
  for (int32_t launches = 0; std::cin >> what >> launches;) {
    const auto kind = what == "gemms" ? LaunchKind::kGemms : LaunchKind::kLayer;
    std::printf("%.6f\n", layer.run(kind, launches));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  try {
    return megaflux::bench::serve(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
