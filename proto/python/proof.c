/* proof.c - see proof.h. */
#include "proof.h"

#include "code.h"
#include "dict.h"

#include <string.h>

/* How often to try: another thread may import a module meanwhile, which moves the dicts. */
#define TRIES 8
#define READS 4096

static bool says_release(struct python *python, uint64_t sys)
{
	uint64_t version;
	return python_number(python, python_dict_find(python, sys, "hexversion", NULL), &version) &&
	       version >> 24 == 3 && (version >> 16 & 0xff) == python->minor;
}

static bool says_name(struct python *python, uint64_t sys)
{
	struct python_items attributes;
	uint64_t type;
	char name[8];
	if (!python_attributes_open(python, python_dict_find(python, sys, "__spec__", NULL), &attributes))
		return false;
	uint64_t text = python_items_find(python, &attributes, "name", NULL);
	return python_has_flag(python, text, PYTHON_TYPE_IS_STR, &type) &&
	       python_text(python, text, name, sizeof name) && strcmp(name, "sys") == 0;
}

static const char *look(struct python *python)
{
	uint64_t sys = python_module(python, "sys", NULL);
	if (!sys)
		return "the module sys";
	if (!says_release(python, sys))
		return "sys.hexversion";
	return says_name(python, sys) ? NULL : "sys.__spec__.name";
}

const char *python_disproved(struct python *python)
{
	const char *missing = NULL;
	for (int i = 0; i < TRIES; i++) {
		python->memory.reads_left = READS;
		if (!(missing = look(python)))
			break;
	}
	return missing;
}
