/* libdw.c - see libdw.h. */
#include "libdw.h"

#include <dlfcn.h>
#include <string.h>

static const char *failure;

static bool find_functions(void *library, struct libdw *ret)
{
	void *found;

	/* libelf's are found through it, too. */
#define FUNCTION(returns, name, arguments)                                                                             \
	found = dlsym(library, #name);                                                                                 \
	if (!found)                                                                                                    \
		return false;                                                                                          \
	memcpy(&ret->name, &found, sizeof found);
#include "libdw.def"
	return true;
}

const struct libdw *libdw_load(void)
{
	static struct libdw functions;
	static bool is_loaded;
	void *library;

	if (is_loaded)
		return &functions;
	library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
	if (library && find_functions(library, &functions)) {
		is_loaded = true;
		return &functions;
	}
	failure = dlerror();
	return NULL;
}

const char *libdw_failure(void)
{
	return failure ? failure : "?";
}
