# embed(OUTPUT HEADER NAME INPUT [NAME INPUT]...): files as C texts, in one C file.
function(embed output header)
	set(code "/* Made by cmake/embed.cmake. */\n#include \"${header}\"\n")
	set(rest ${ARGN})
	while(rest)
		list(POP_FRONT rest name input)
		set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${input})
		# file(READ) would take brackets and semicolons for its own.
		execute_process(COMMAND sed -e "s/\\\\/\\\\\\\\/g" -e "s/\"/\\\\\"/g" -e "s/^/\\t\"/" -e "s/$/\\\\n\"/" ${input} OUTPUT_VARIABLE text RESULT_VARIABLE failed)
		if(failed)
			message(FATAL_ERROR "${input} cannot be read")
		endif()
		string(APPEND code "\nconst char ${name}[] =\n${text}\t\"\";\n")
	endwhile()
	# Written only where it has changed, so that nothing is compiled anew for nothing.
	file(WRITE ${output}.new "${code}")
	configure_file(${output}.new ${output} COPYONLY)
endfunction()
