# megaflux_room(NAME DEPENDS lower rooms... LIBRARIES external targets...)
#
# A room is a folder below src/megaflux and becomes the object library megaflux_NAME; the include direction is
# the DEPENDS lists, and tests/architecture checks the include lines against the same order.
function(megaflux_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LIBRARIES;SOURCES" ${ARGN})
  string(REPLACE "/" "_" target "megaflux_${name}")
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  endif()
  if(NOT ROOM_SOURCES)
    return()
  endif()
  add_library(${target} STATIC ${ROOM_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:megaflux_options>)
  foreach(room IN LISTS ROOM_DEPENDS)
    string(REPLACE "/" "_" lower "megaflux_${room}")
    if(TARGET ${lower})
      target_link_libraries(${target} PUBLIC ${lower})
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE ${ROOM_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY MEGAFLUX_ROOMS ${target})
endfunction()

# megaflux_test(NAME LIBRARIES targets...): every .cpp below tests/NAME, one program test_NAME, one CTest entry
# a test case.
function(megaflux_test name)
  cmake_parse_arguments(TEST "" "" "LIBRARIES" ${ARGN})
  string(REPLACE "/" "_" target "test_${name}")
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${TEST_LIBRARIES} megaflux_options GTest::gtest_main
                                          rapidcheck rapidcheck_gtest)
  target_compile_definitions(${target} PRIVATE MF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               MF_BINARY_DIR="${PROJECT_BINARY_DIR}")
  gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
