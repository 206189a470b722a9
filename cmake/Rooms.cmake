# megaflux_room(NAME DEPENDS lower rooms... LIBRARIES external targets... SOURCES files...)
#
# A room is a folder below src/megaflux and becomes the static library megaflux_NAME ("/" turns into "_"), or an
# interface library if it has headers only; a folder without either is skipped. SOURCES replaces the room's
# *.cpp. The include direction is the DEPENDS lists; tests/architecture checks the include lines against the
# same order. LIBRARIES are private: no public header shows them.
#
# With MEGAFLUX_CUDA, the room's *.cu files become a second static library megaflux_NAME_cuda, over the room's own
# and the CUDA libraries of lower rooms.
function(megaflux_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LIBRARIES;SOURCES" ${ARGN})
  string(REPLACE "/" "_" target "megaflux_${name}")
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  endif()
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.h)
  if(ROOM_SOURCES)
    add_library(${target} STATIC ${ROOM_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:megaflux_options> ${ROOM_LIBRARIES})
    set_property(GLOBAL APPEND PROPERTY MEGAFLUX_ROOMS ${target})
    set(scope PUBLIC)
  elseif(headers)
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  else()
    return()
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src)
  foreach(room IN LISTS ROOM_DEPENDS)
    string(REPLACE "/" "_" lower "megaflux_${room}")
    if(TARGET ${lower})
      target_link_libraries(${target} ${scope} ${lower})
    endif()
  endforeach()
  if(MEGAFLUX_CUDA)
    megaflux_cuda_room(${name} "${ROOM_DEPENDS}")
  endif()
endfunction()

# The CUDA half of megaflux_room. Device functions are inline in .cuh files: objects are not linked on the device.
function(megaflux_cuda_room name depends)
  string(REPLACE "/" "_" target "megaflux_${name}")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cu)
  if(NOT sources)
    return()
  endif()
  add_library(${target}_cuda STATIC ${sources})
  megaflux_cuda_reports(${target}_cuda)
  target_link_libraries(${target}_cuda PUBLIC ${target} CUDA::cudart_static
                                       PRIVATE $<BUILD_INTERFACE:megaflux_cuda_options>)
  set_property(GLOBAL APPEND PROPERTY MEGAFLUX_CUDA_ROOMS ${target}_cuda)
  foreach(room IN LISTS depends)
    string(REPLACE "/" "_" lower "megaflux_${room}_cuda")
    if(TARGET ${lower})
      target_link_libraries(${target}_cuda PUBLIC ${lower})
    endif()
  endforeach()
endfunction()

# megaflux_library(LIBRARIES external targets...): the library `megaflux` that users link, made of the objects of
# every room named so far. BUILD_SHARED_LIBS decides whether it is shared. With MEGAFLUX_CUDA the objects of their CUDA
# halves are a second one over it, `megaflux_cuda`, always static.
function(megaflux_library)
  cmake_parse_arguments(LIBRARY "" "" "LIBRARIES" ${ARGN})
  get_property(rooms GLOBAL PROPERTY MEGAFLUX_ROOMS)
  list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(megaflux ${objects})
  add_library(megaflux::megaflux ALIAS megaflux)
  set_target_properties(megaflux PROPERTIES
    LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_compile_features(megaflux PUBLIC cxx_std_20)
  target_include_directories(megaflux PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(megaflux PRIVATE Threads::Threads ${LIBRARY_LIBRARIES})
  if(MEGAFLUX_SANITIZE)
    target_link_options(megaflux PUBLIC -fsanitize=${MEGAFLUX_SANITIZE})
  endif()
  if(MEGAFLUX_CUDA)
    get_property(rooms GLOBAL PROPERTY MEGAFLUX_CUDA_ROOMS)
    list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
    add_library(megaflux_cuda STATIC ${objects})
    add_library(megaflux::megaflux_cuda ALIAS megaflux_cuda)
    set_target_properties(megaflux_cuda PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(megaflux_cuda PUBLIC megaflux CUDA::cudart_static)
  endif()
endfunction()

# megaflux_test(NAME [THREADS] LIBRARIES targets... [SOURCES files...]): every .cpp below tests/NAME (or SOURCES),
# one program test_NAME, one CTest entry a test case. THREADS: the suite runs ranks as threads, so it is built under ThreadSanitizer too.
# Suites whose name ends in Slow are left out of the sanitizer presets.
function(megaflux_test name)
  cmake_parse_arguments(TEST "THREADS" "" "LIBRARIES;SOURCES" ${ARGN})
  string(REPLACE "/" "_" target "test_${name}")
  set(sources ${TEST_SOURCES})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  endif()
  if(NOT sources OR (MEGAFLUX_SANITIZE STREQUAL "thread" AND NOT TEST_THREADS))
    return()
  endif()
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${TEST_LIBRARIES} megaflux_options GTest::gtest_main
                                          rapidcheck rapidcheck_gtest)
  target_compile_definitions(${target} PRIVATE MF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               MF_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(MEGAFLUX_SANITIZE)
    # Property tests are large templates that run for moments: instrumented, optimising them costs more than it
    # saves. The library under test keeps its -O1.
    target_compile_options(${target} PRIVATE -O0)
  endif()
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # The frameworks' headers are most of a test's compile time; a compiler cache does better than a
    # precompiled header, and the two do not go together.
    file(GLOB c_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.c)
    set_source_files_properties(${c_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    get_property(first GLOBAL PROPERTY MEGAFLUX_FIRST_TEST)
    if(first)
      target_precompile_headers(${target} REUSE_FROM ${first})
    else()
      target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <rapidcheck.h> <rapidcheck/gtest.h>)
      set_property(GLOBAL PROPERTY MEGAFLUX_FIRST_TEST ${target})
    endif()
  endif()
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS "${name}")
endfunction()

# megaflux_gpu_test(NAME LIBRARIES targets...): every .cu below tests/NAME, one program gpu_test_NAME, one CTest entry: it
# prints its own summary, and ends with 77 (skipped) where there is no GPU. It links nothing that a GPU machine may
# lack.
function(megaflux_gpu_test name)
  cmake_parse_arguments(TEST "" "" "LIBRARIES" ${ARGN})
  set(target gpu_test_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*.cu)
  if(NOT sources)
    return()
  endif()
  add_executable(${target} ${sources})
  megaflux_cuda_reports(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${TEST_LIBRARIES} gpu_test_main megaflux_cuda_options)
  set_property(GLOBAL APPEND PROPERTY MEGAFLUX_GPU_TESTS ${target})
  add_test(NAME gpu.${name} COMMAND ${target})
  set_tests_properties(gpu.${name} PROPERTIES LABELS gpu TIMEOUT 600 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endfunction()
