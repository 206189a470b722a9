// What a function puts on a stream, as a graph that is replayed there.
#pragma once

#include <cuda_runtime.h>

#include "megaflux/base/check_cuda.h"

namespace megaflux::gpu {

class CapturedLaunch {
 public:
  template <typename Fn>
  CapturedLaunch(cudaStream_t stream, Fn&& launch) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    MF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch();
    MF_CUDA(cudaStreamEndCapture(stream, &graph));
    MF_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    MF_CUDA(cudaGraphDestroy(graph));
  }
  CapturedLaunch(const CapturedLaunch&) = delete;
  CapturedLaunch& operator=(const CapturedLaunch&) = delete;
  ~CapturedLaunch() { cudaGraphExecDestroy(graph_); }

  void replay() const { MF_CUDA(cudaGraphLaunch(graph_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace megaflux::gpu
