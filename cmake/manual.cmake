# Manuals and completions, made during the build from the tables that the programs read themselves: by a small program
# (docs/manual/) that is linked with them. It runs on the machine that builds, so where that is not the one that is built for, a
# compiler of its own is needed: PROFD_HOST_CC, else cc.
set(manual_folder ${CMAKE_SOURCE_DIR}/docs/manual)
set(manual_made ${CMAKE_BINARY_DIR}/manual)
file(MAKE_DIRECTORY ${manual_made})

file(GLOB manual_sources CONFIGURE_DEPENDS ${manual_folder}/*.c)
list(APPEND manual_sources ${CMAKE_SOURCE_DIR}/client/verbs/verbs.c ${CMAKE_SOURCE_DIR}/client/verbs/topics.c client/report/cuts.c
	${CMAKE_BINARY_DIR}/client/json_reference.c)
if(CMAKE_CROSSCOMPILING)
	find_program(PROFD_HOST_CC NAMES cc gcc clang NO_CMAKE_FIND_ROOT_PATH REQUIRED)
	file(GLOB manual_headers CONFIGURE_DEPENDS ${manual_folder}/*.h client/verbs/*.h client/*/*.def daemon/setup/options.*
		daemon/core/config.def proto/*.h proto/*.def)
	set(manual_program ${manual_made}/profd-manual)
	add_custom_command(OUTPUT ${manual_program} VERBATIM
		COMMAND ${PROFD_HOST_CC} -std=gnu17 -D_GNU_SOURCE= -I${CMAKE_SOURCE_DIR} -o ${manual_program} ${manual_sources}
		DEPENDS ${manual_sources} ${manual_headers})
else()
	add_executable(profd-manual ${manual_sources})
	set_target_properties(profd-manual PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${manual_made})
	set(manual_program profd-manual)
endif()

# manual_page(TEMPLATE NAME FOLDER): makes build/manual/NAME, installed in FOLDER.
set(manual_files "")
function(manual_page template name folder)
	set(made ${manual_made}/${name})
	add_custom_command(OUTPUT ${made} VERBATIM
		COMMAND ${manual_program} ${CMAKE_SOURCE_DIR}/agent/profd.h ${manual_folder}/${template}.in ${made}
		DEPENDS ${manual_program} ${manual_folder}/${template}.in ${CMAKE_SOURCE_DIR}/agent/profd.h)
	install(FILES ${made} DESTINATION ${folder})
	set(manual_files ${manual_files} ${made} PARENT_SCOPE)
endfunction()

manual_page(profd.1 profd.1 ${CMAKE_INSTALL_MANDIR}/man1)
manual_page(profd.h.3 profd.h.3 ${CMAKE_INSTALL_MANDIR}/man3)
manual_page(profd.conf.5 profd.conf.5 ${CMAKE_INSTALL_MANDIR}/man5)
manual_page(profd-daemon.8 profd-daemon.8 ${CMAKE_INSTALL_MANDIR}/man8)
# Where the shells look: bash by the command's name, zsh by _NAME (Debian's packages have a folder of their own), fish.
if(EXISTS /etc/debian_version AND (CMAKE_INSTALL_PREFIX STREQUAL "/usr" OR CPACK_PACKAGING_INSTALL_PREFIX STREQUAL "/usr"))
	set(zsh_folder vendor-completions)
else()
	set(zsh_folder site-functions)
endif()
manual_page(profd.bash profd ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
manual_page(profd.zsh _profd ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder})
manual_page(profd.fish profd.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
add_custom_target(manual ALL DEPENDS ${manual_files})
