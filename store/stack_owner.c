/* stack_owner.c - see stack_owner.h. */
#include "stack_owner.h"

#include <stdbool.h>
#include <string.h>

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static enum stack_owner without_file(const char *name)
{
	if (starts(name, "<stdin>") || starts(name, "<ipython"))
		return OWNER_USER;
	if (starts(name, "<string>"))
		return OWNER_TEXT;
	/* Graphs of torch.fx, and what it was packed from. */
	if (starts(name, "<eval_with_key>") || starts(name, "<torch_package"))
		return OWNER_TORCH;
	return OWNER_PYTHON;
}

/* "/usr/lib/python3.11/json/decoder.py" */
static bool is_standard(const char *path)
{
	const char *at = strstr(path, "/lib/python3");
	return at && strchr(at + 1, '/') && strstr(at + 5, "/");
}

enum stack_owner stack_owner(const char *file)
{
	const char *package = strstr(file, "/site-packages/");
	if (!*file)
		return OWNER_PYTHON;
	if (*file == '<')
		return without_file(file);
	/* The frame that CPython puts around the `__init__` of a class, from 3.12 on. */
	if (strcmp(file, "__init__") == 0)
		return OWNER_PYTHON;
	package = package ? package + strlen("/site-packages/") : strstr(file, "/dist-packages/");
	if (package) {
		package += *package == '/' ? strlen("/dist-packages/") : 0;
		return starts(package, "torch/") || starts(package, "functorch/") ? OWNER_TORCH : OWNER_PACKAGE;
	}
	/* What torch.compile writes. */
	if (strstr(file, "/torchinductor_"))
		return OWNER_TORCH;
	return is_standard(file) ? OWNER_PYTHON : OWNER_USER;
}
