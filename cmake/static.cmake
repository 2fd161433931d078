# The libraries of daemon and client as archives, under the names that pkg-config's targets have otherwise.
function(static_library target archive)
	find_library(${target}_ARCHIVE NAMES ${archive} REQUIRED)
	add_library(PkgConfig::${target} INTERFACE IMPORTED GLOBAL)
	set_property(TARGET PkgConfig::${target} PROPERTY INTERFACE_LINK_LIBRARIES ${${target}_ARCHIVE} ${ARGN})
endfunction()

static_library(UV libuv_a.a Threads::Threads ${CMAKE_DL_LIBS} rt)
static_library(SQLITE libsqlite3.a Threads::Threads ${CMAKE_DL_LIBS} m)
static_library(ZLIB libz.a)

if(NOT EXISTS ${PROFD_CJSON}/cJSON.c)
	message(FATAL_ERROR "PROFD_STATIC needs PROFD_CJSON, a folder with cJSON.c")
endif()
add_library(cjson_archive STATIC ${PROFD_CJSON}/cJSON.c)
target_compile_options(cjson_archive PRIVATE -w)
# Our sources include <cjson/cJSON.h>, as distributions install it.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include/cjson)
configure_file(${PROFD_CJSON}/cJSON.h ${CMAKE_BINARY_DIR}/include/cjson/cJSON.h COPYONLY)
add_library(PkgConfig::CJSON INTERFACE IMPORTED GLOBAL)
set_property(TARGET PkgConfig::CJSON PROPERTY INTERFACE_LINK_LIBRARIES cjson_archive m)
set_property(TARGET PkgConfig::CJSON PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/include)
