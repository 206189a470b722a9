# CUDA as a language, and how our CUDA sources are compiled and linked.
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")

set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know that nvcc 13 has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()

# Targets with .cu files link megaflux_cuda_options privately, and say by megaflux_cuda_reports(TARGET) that their
# objects are held against what ptxas reports of them. A kernel that is built to be watched, not to be used, has the
# target property MF_MAY_SPILL instead.
add_library(megaflux_cuda_options INTERFACE)
target_compile_options(megaflux_cuda_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:
  --expt-relaxed-constexpr
  # As -ffp-contract=off on the host: what is fused is written fma.
  --fmad=false
  # Source lines for profilers and sanitizers; the code stays the same.
  -lineinfo
  --Werror=cross-execution-space-call,reorder
  -Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off
  $<IF:$<BOOL:$<TARGET_PROPERTY:MF_MAY_SPILL>>,-Xptxas=-v,-Xptxas=-v$<COMMA>-warn-spills$<COMMA>-warn-lmem-usage$<COMMA>-Werror>>)
target_link_libraries(megaflux_cuda_options INTERFACE CUDA::cudart_static Threads::Threads)

# Runs every nvcc of the target under a script that keeps ptxas' report beside the object (OBJECT.ptxas), and fails
# the build on spills, local memory and serialized wgmma.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
function(megaflux_cuda_reports target)
  set(launcher ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/cmake/ptxas_report.py ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
endfunction()
