# Compile options of everything this project builds: targets link megaflux_options privately.
add_library(megaflux_options INTERFACE)
# nvcc has options of its own (Cuda.cmake): it hands generated code to the host compiler.
target_compile_options(megaflux_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # Bitwise equality between executors rests on explicit fma calls, never on the compiler's choice.
  -ffp-contract=off>)
target_link_libraries(megaflux_options INTERFACE Threads::Threads)

if(MEGAFLUX_SANITIZE)
  target_compile_options(megaflux_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:
    -fsanitize=${MEGAFLUX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(megaflux_options INTERFACE -fsanitize=${MEGAFLUX_SANITIZE})
endif()
