/* redact.c - a page that can be given away: of paths their last part stays, of host and user nothing. */
#include "parts.h"

#include "client/ui/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool in_path(char c)
{
	return isalnum((unsigned char)c) || strchr("/._-+@~%", c) || (unsigned char)c >= 0x80;
}

/* /home/ann/run/train.py becomes train.py, wherever it stands in the text. Names of operators (aten::add) and shares (12/s)
 * are no paths. */
static void shorten_paths(char *text)
{
	char *to = text;
	for (const char *at = text; *at;) {
		bool begins = (*at == '/' || (*at == '~' && at[1] == '/')) && (at == text || !in_path(at[-1]));
		const char *end = at, *last = at;
		if (!begins) {
			*to++ = *at++;
			continue;
		}
		for (; *end && in_path(*end); end++)
			if (*end == '/' && end[1] && in_path(end[1]) && end[1] != '/')
				last = end + 1;
		for (at = last == at ? at + (*at == '/') : last; at < end; at++)
			*to++ = *at;
	}
	*to = '\0';
}

static void shorten_all(cJSON *item)
{
	if (cJSON_IsString(item))
		shorten_paths(item->valuestring);
	for (cJSON *child = item->child; child; child = child->next)
		shorten_all(child);
}

void page_redact(cJSON *data)
{
	static const char *const private[] = {"command", "host", "user", "uid"};
	cJSON *about = cJSON_GetObjectItemCaseSensitive(data, "about");
	for (size_t i = 0; i < sizeof private / sizeof *private; i++)
		cJSON_DeleteItemFromObjectCaseSensitive(about, private[i]);
	shorten_all(data);
}
