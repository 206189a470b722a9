# fuzz_readers: every reader of bytes from outside as a function of fuzz_targets.h.
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fuzz_*.cpp)
set(cli ${PROJECT_SOURCE_DIR}/tools/cli)
add_library(fuzz_readers STATIC ${fuzz_sources}
  ${cli}/options.cpp ${cli}/json_output.cpp ${cli}/text_format.cpp
  ${cli}/plan/owners_file.cpp ${cli}/plan/plan_tables.cpp ${cli}/import/layer_list.cpp)
target_include_directories(fuzz_readers PUBLIC ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/tools)
target_link_libraries(fuzz_readers
  PUBLIC megaflux_convert megaflux_plan megaflux_trace
  PRIVATE megaflux_options CLI11::CLI11 fmt::fmt-header-only nlohmann_json::nlohmann_json)
