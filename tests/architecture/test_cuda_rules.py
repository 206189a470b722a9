"""Every rule of CUDA code is fed files that break it, and neighbours that do not."""

import unittest

import cuda_rules
from test_rules import EveryRule

KERNEL = "src/megaflux/head/x_cuda.cu"
DEVICE = "src/megaflux/comm/x_device.cuh"
SCOPES = (
    "constexpr auto kPeerScope = cuda::thread_scope_system;\n"
    "constexpr auto kRankScope = cuda::thread_scope_device;\n"
)

CASES = {
    cuda_rules.no_non_coherent_loads: (
        [
            (KERNEL, "int x = __ldg(p);"),
            (KERNEL, 'asm("ld.global.nc.b32 %0, [%1];");'),
            (KERNEL, 'asm volatile("ld.global.L1::no_allocate.nc.v4.u32");'),
            (KERNEL, "void f(const int* __restrict__ p);"),
            (DEVICE, "void f(const int* __restrict p);"),
        ],
        [
            (KERNEL, '// never __ldg\nasm("ld.global.v4.u32 %0, [%1];");'),
            ("tests/head/x.cu", "int x = __ldg(p);"),
        ],
    ),
    cuda_rules.scopes_stand_with_the_signals: (
        [
            (KERNEL, "cuda::atomic_ref<int, cuda::thread_scope_block> x(y);"),
            (DEVICE, "cuda::atomic_ref<int, cuda::thread_scope_system> x(y);"),
            (KERNEL, 'asm volatile("ld.acquire.sys.global.u32 %0, [%1];");'),
            (KERNEL, 'asm volatile("red.release.gpu.global.add.u32 [%0], %1;");'),
            (KERNEL, 'asm volatile("fence.acq_rel.sys;");'),
            (KERNEL, "__threadfence_system();"),
            (KERNEL, "atomicAdd_block(x, 1);"),
            (KERNEL, "ptx::fence(ptx::sem_release, ptx::scope_cta);"),
        ],
        [
            (cuda_rules.SIGNALS, SCOPES + 'asm("red.release.sys.global.add.u32 [%0], %1;");'),
            (KERNEL, "load_signal<kPeerScope>(word); self.cta = 0; mask.sys; // thread_scope_block"),
            (KERNEL, "ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, x);"),
            (KERNEL, 'asm volatile("fence.proxy.async.shared::cta;");'),
            ("tests/comm/x.cu", "__threadfence();"),
        ],
    ),
    cuda_rules.scopes_are_not_weakened: (
        [
            (cuda_rules.SIGNALS, SCOPES.replace("thread_scope_system", "thread_scope_device")),
            (cuda_rules.SIGNALS, SCOPES.replace("thread_scope_device", "thread_scope_block")),
            (cuda_rules.SIGNALS, SCOPES + 'asm("red.release.cta.global.add.u32 [%0], %1;");'),
            (cuda_rules.SIGNALS, SCOPES + "x.load(cuda::thread_scope_block);"),
        ],
        [(cuda_rules.SIGNALS, SCOPES + "// never thread_scope_block\n")],
    ),
    cuda_rules.no_multicast: (
        [
            (KERNEL, 'asm("multimem.red.add.f32 [%0], %1;");'),
            ("src/megaflux/comm/x_cuda.cu", "cuMulticastCreate(&handle, &properties);"),
            ("src/megaflux/comm/x_cuda.cu", "requirements.lsaMultimem = true;"),
        ],
        [("src/megaflux/comm/x_cuda.cu", "requirements.lsaMultimem = false;  // no multimem")],
    ),
    cuda_rules.cuda_files_have_their_places: (
        [
            ("src/megaflux/trace/x_cuda.cu", ""),
            ("src/megaflux/layer/reference/x_device.cuh", ""),
            ("src/megaflux/layer/x_cuda.cu", ""),
            ("src/megaflux/moe/x_cuda.cu", ""),
            ("src/megaflux/x_cuda.h", ""),
            ("tools/viewer/x.cu", ""),
            ("src/megaflux/plan/x.cu", ""),
            ("src/megaflux/plan/x.cuh", ""),
        ],
        [
            (KERNEL, ""),
            (DEVICE, ""),
            ("src/megaflux/plan/x_cuda.h", ""),
            ("src/megaflux/moe/x_device.cuh", ""),
            ("src/megaflux/layer/mega/roles/x_kernel.cuh", ""),
            ("src/megaflux/layer/x_device.cuh", ""),
            ("tests/plan/test_x.cu", ""),
        ],
    ),
    cuda_rules.kernel_names: (
        [
            (KERNEL, "__global__ void plan(int x) {}"),
            (KERNEL, "__global__ void __launch_bounds__(kThreads, 1)\n    plan(int x) {}"),
            (KERNEL, "__global__ __launch_bounds__(f(1)) void plan(int x) {}"),
        ],
        [
            (KERNEL, "__global__ void __launch_bounds__(kThreads) plan_kernel(int x) {}"),
            (KERNEL, "__device__ void plan(int x) {}  // __global__ void plan(int x)"),
        ],
    ),
}


class EveryCudaRule(EveryRule):
    RULES = cuda_rules.CUDA_RULES
    CASES = CASES


del EveryRule  # it has run in test_rules.py

if __name__ == "__main__":
    unittest.main()
