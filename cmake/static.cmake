# The libraries of daemon and client from their sources (PROFD_SOURCES), under the names that pkg-config's targets have
# otherwise. Nothing that was compiled elsewhere is linked: an archive of the distribution's asks for its own, new glibc.
foreach(pair ${PROFD_SOURCES})
	if(pair MATCHES "^([a-z]+)=(.+)$")
		set(source_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
	endif()
endforeach()
foreach(name cjson uv sqlite zlib yajl iberty)
	if(NOT IS_DIRECTORY "${source_${name}}")
		message(FATAL_ERROR "PROFD_STATIC needs ${name}=DIR in PROFD_SOURCES, the folder of its sources; ./dev static has them")
	endif()
endforeach()

# What is only for debuggers says where it was built.
add_link_options(-Wl,--strip-debug)
# In messages of assertions the libraries' files are called by the libraries' names, ours as in the repository.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
foreach(name cjson uv sqlite zlib yajl iberty)
	add_compile_options(-ffile-prefix-map=${source_${name}}=${name})
endforeach()

# Headers under the names by which our sources include them, as distributions install them.
set(third ${CMAKE_BINARY_DIR}/include)
function(third_library target name)
	cmake_parse_arguments(library "" "" "SOURCES;HEADERS;DEFINITIONS;INCLUDES;LIBRARIES" ${ARGN})
	add_library(${name}_archive STATIC ${library_SOURCES})
	target_compile_options(${name}_archive PRIVATE -w)
	target_compile_definitions(${name}_archive PRIVATE ${library_DEFINITIONS})
	target_include_directories(${name}_archive PRIVATE ${library_INCLUDES})
	foreach(header ${library_HEADERS})
		get_filename_component(file ${header} NAME)
		configure_file(${header} ${third}/${file} COPYONLY)
	endforeach()
	add_library(PkgConfig::${target} INTERFACE IMPORTED GLOBAL)
	set_property(TARGET PkgConfig::${target} PROPERTY INTERFACE_LINK_LIBRARIES ${name}_archive ${library_LIBRARIES})
	set_property(TARGET PkgConfig::${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${third})
endfunction()

file(MAKE_DIRECTORY ${third}/cjson ${third}/libiberty)
configure_file(${source_cjson}/cJSON.h ${third}/cjson/cJSON.h COPYONLY)
third_library(CJSON cjson SOURCES ${source_cjson}/cJSON.c LIBRARIES m)

# As Debian configures it; fdatasync and usleep are there on every Linux, but without a configure it does not know.
third_library(SQLITE sqlite SOURCES ${source_sqlite}/sqlite3.c
	HEADERS ${source_sqlite}/sqlite3.h
	DEFINITIONS SQLITE_THREADSAFE=1 SQLITE_USE_URI=1 SQLITE_ENABLE_COLUMN_METADATA SQLITE_ENABLE_DBSTAT_VTAB
		SQLITE_MAX_VARIABLE_NUMBER=250000 SQLITE_OMIT_LOAD_EXTENSION HAVE_FDATASYNC=1 HAVE_USLEEP=1 HAVE_GMTIME_R=1
		HAVE_LOCALTIME_R=1
	LIBRARIES Threads::Threads ${CMAKE_DL_LIBS} m)

file(GLOB zlib_sources ${source_zlib}/*.c)
third_library(ZLIB zlib SOURCES ${zlib_sources} HEADERS ${source_zlib}/zlib.h ${source_zlib}/zconf.h
	DEFINITIONS HAVE_UNISTD_H)

# Only what parses. Its headers lie in src/api, and are included as yajl/.
file(MAKE_DIRECTORY ${third}/yajl)
file(GLOB yajl_headers ${source_yajl}/src/api/*.h)
foreach(header ${yajl_headers})
	get_filename_component(file ${header} NAME)
	configure_file(${header} ${third}/yajl/${file} COPYONLY)
endforeach()
set(yajl_sources "")
foreach(part yajl yajl_alloc yajl_buf yajl_encode yajl_lex yajl_parser)
	list(APPEND yajl_sources ${source_yajl}/src/${part}.c)
endforeach()
third_library(YAJL yajl SOURCES ${yajl_sources} INCLUDES ${source_yajl}/src ${third})

# The demangler alone: it may be linked into anything, which is not so of all of libiberty.
foreach(header ansidecl.h libiberty.h demangle.h)
	configure_file(${source_iberty}/include/${header} ${third}/libiberty/${header} COPYONLY)
endforeach()
third_library(IBERTY iberty SOURCES ${source_iberty}/libiberty/cp-demangle.c
	INCLUDES ${source_iberty}/include DEFINITIONS HAVE_STDLIB_H HAVE_STRING_H HAVE_LIMITS_H)
set(PROFD_IBERTY PkgConfig::IBERTY)

# libuv's own list of sources differs from system to system: its own CMake knows it.
set(LIBUV_BUILD_TESTS OFF CACHE BOOL "" FORCE)
# Which warnings the compiler knows need not be tried one by one: none are wanted.
file(STRINGS ${source_uv}/CMakeLists.txt lines REGEX "check_c_compiler_flag\\(")
foreach(line ${lines})
	if(line MATCHES "(UV_LINT_[A-Z0-9_]+)\\)")
		set(${CMAKE_MATCH_1} OFF CACHE INTERNAL "")
	endif()
endforeach()
add_subdirectory(${source_uv} ${CMAKE_BINARY_DIR}/third/uv EXCLUDE_FROM_ALL)
target_compile_options(uv_a PRIVATE -w)
add_library(PkgConfig::UV INTERFACE IMPORTED GLOBAL)
set_property(TARGET PkgConfig::UV PROPERTY INTERFACE_LINK_LIBRARIES uv_a Threads::Threads ${CMAKE_DL_LIBS} rt)

# Only for tests of another machine's build: the distribution's is for this one.
if(source_cmocka)
	third_library(CMOCKA cmocka SOURCES ${source_cmocka}/src/cmocka.c
		HEADERS ${source_cmocka}/include/cmocka.h
		INCLUDES ${source_cmocka}/include
		DEFINITIONS HAVE_MALLOC_H HAVE_INTTYPES_H HAVE_SIGNAL_H HAVE_STRINGS_H HAVE_GCC_THREAD_LOCAL_STORAGE
			HAVE_CLOCK_REALTIME HAVE_SIGLONGJMP HAVE_STRSIGNAL HAVE_STRUCT_TIMESPEC)
	set(CMOCKA_FOUND TRUE)
endif()
