# cmake -D PAGE=report.html -D D3=d3.min.js -D D3_LICENCE=d3_licence.txt -D OUTPUT=page_source.cpp -P embed_page.cmake
#
# Puts every style sheet and script that PAGE names into it, and writes what stands before and after the line
# <!-- report-payload --> as the byte arrays behind page_source.h. The page then needs no other file.
cmake_minimum_required(VERSION 3.25)

get_filename_component(folder ${PAGE} DIRECTORY)
file(READ ${PAGE} page)

# Sets `text` to what stands in `file`, which must not close or open what it is put into.
function(read_checked file)
  file(READ ${file} content)
  string(TOLOWER "${content}" lower)
  foreach(mark IN ITEMS "</script" "</style" "<!--")
    string(FIND "${lower}" "${mark}" position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} holds ${mark} at byte ${position}, which would end its element in the page")
    endif()
  endforeach()
  set(text "${content}" PARENT_SCOPE)
endfunction()

# Replaces `line` of the page.
function(replace_line line replacement)
  string(REPLACE "${line}" "${replacement}" page "${page}")
  set(page "${page}" PARENT_SCOPE)
endfunction()

string(REGEX MATCHALL "<link rel=\"stylesheet\" href=\"[A-Za-z0-9_.]+\">" styles "${page}")
foreach(line IN LISTS styles)
  string(REGEX REPLACE ".*href=\"(.*)\">" "\\1" name "${line}")
  read_checked(${folder}/${name})
  replace_line("${line}" "<style>\n${text}</style>")
endforeach()

string(REGEX MATCHALL "<script src=\"[A-Za-z0-9_.]+\"></script>" scripts "${page}")
foreach(line IN LISTS scripts)
  string(REGEX REPLACE ".*src=\"(.*)\"></script>" "\\1" name "${line}")
  if(name STREQUAL "d3.min.js")
    read_checked(${D3_LICENCE})
    set(licence "/* d3\n\n${text}*/\n")
    read_checked(${D3})
    replace_line("${line}" "<script>\n${licence}${text}</script>")
  else()
    read_checked(${folder}/${name})
    replace_line("${line}" "<script>\n${text}</script>")
  endif()
endforeach()

# Whatever is still named would be asked for over the network.
string(REGEX MATCH "<(script|link|img|iframe)[^>]* (src|href)=\"[^\"d#][^\"]*\"" left "${page}")
if(left)
  message(FATAL_ERROR "${PAGE}: ${left} was not inlined")
endif()

set(mark "<!-- report-payload -->")
string(FIND "${page}" "${mark}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${PAGE} has no line ${mark}")
endif()
string(LENGTH "${mark}" mark_length)
math(EXPR tail_position "${position} + ${mark_length}")
string(SUBSTRING "${page}" 0 ${position} head)
string(SUBSTRING "${page}" ${tail_position} -1 tail)

set(source "#include \"viewer/page_source.h\"\n\nnamespace megaflux::viewer {\nnamespace {\n\n")
foreach(part IN ITEMS head tail)
  file(WRITE ${OUTPUT}.${part} "${${part}}")
  file(READ ${OUTPUT}.${part} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND source "constexpr unsigned char k_${part}[] = {${bytes}0};\n")
endforeach()
string(APPEND source "
std::string_view text_of(const unsigned char* bytes, unsigned long size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

PageSource page_source() {
  return {text_of(k_head, sizeof(k_head) - 1), text_of(k_tail, sizeof(k_tail) - 1)};
}

}  // namespace megaflux::viewer
")
file(WRITE ${OUTPUT} "${source}")
