/* config_file.c - see config_file.h. Any thread; no state, no locks. */
#include "config_file.h"
#include "proto/base/facts.h"
#include "proto/quantity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_FILE "/etc/profd/profd.conf"
#define SYSTEM_FOLDER "/etc/profd/conf.d"
/* A real file is much smaller. */
#define FILE_BYTES (1u << 20)
#define VALUE_BYTES CONFIG_PATH_BYTES

enum kind { NUMBER, SIZE, DURATION, FLAG, PATH, GROUP };

struct key {
	enum kind kind;
	const char *name; /* of a GROUP: its title */
	const char *initial;
	int64_t least, most;
	bool live;
	const char *help;
	size_t offset, size;
};

#define PLACE(key) offsetof(struct config, key), sizeof(((struct config *)0)->key)
static const struct key keys[] = {
#define CONFIG_NUMBER(key, initial, least, most, live, help)                                                           \
	{NUMBER, #key, initial, least, most, live, help, PLACE(key)},
#define CONFIG_SIZE(key, initial, least, most, live, help) {SIZE, #key, initial, least, most, live, help, PLACE(key)},
#define CONFIG_DURATION(key, initial, least, most, live, help)                                                         \
	{DURATION, #key, initial, least, most, live, help, PLACE(key)},
#define CONFIG_FLAG(key, initial, live, help) {FLAG, #key, initial, 0, 0, live, help, PLACE(key)},
#define CONFIG_PATH(key, initial, live, help) {PATH, #key, initial, 0, 0, live, help, PLACE(key)},
#define CONFIG_GROUP(title) {GROUP, title, "", 0, 0, false, "", 0, 0},
#include "daemon/core/config.def"
};
#define KEYS (sizeof keys / sizeof *keys)

/* A bound or a value as one writes it in the file: exact, in the largest unit that fits. */
static void write_number(enum kind kind, int64_t value, char to[VALUE_BYTES])
{
	static const struct {
		const char *unit;
		int64_t size;
	} sizes[] = {{"T", 1ll << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}},
	  durations[] = {{"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
			 {"ms", 1000000},	{"us", 1000},	      {"ns", 1}};
	if (value && kind == SIZE)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			if (value % sizes[i].size == 0) {
				snprintf(to, VALUE_BYTES, "%lld%s", (long long)(value / sizes[i].size), sizes[i].unit);
				return;
			}
	if (value && kind == DURATION)
		for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
			if (value % durations[i].size == 0) {
				snprintf(to, VALUE_BYTES, "%lld%s", (long long)(value / durations[i].size),
					 durations[i].unit);
				return;
			}
	snprintf(to, VALUE_BYTES, "%lld", (long long)value);
}

static const char *wanted(enum kind kind)
{
	switch (kind) {
	case NUMBER:
		return "a whole number is wanted";
	case SIZE:
		return "a size is wanted, such as 512M or 20G";
	case DURATION:
		return "a duration with its unit is wanted, such as 15s, 12h or 30d";
	case FLAG:
		return "yes or no is wanted";
	case PATH:
		return "an absolute path of less than 256 bytes is wanted, or nothing";
	case GROUP:
		break;
	}
	return "";
}

/* False, with `why` filled (VALUE_BYTES), where the value is not valid. */
static bool set(struct config *config, const struct key *key, const char *value, char *why)
{
	void *place = (char *)config + key->offset;
	int64_t number = 0;
	bool good = true;
	snprintf(why, VALUE_BYTES, "%s", wanted(key->kind));
	switch (key->kind) {
	case NUMBER:
		good = quantity_number(value, &number);
		break;
	case SIZE:
		good = quantity_size(value, &number);
		break;
	case DURATION:
		good = quantity_duration(value, &number);
		break;
	case FLAG:
		if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
			return false;
		*(bool *)place = strcmp(value, "yes") == 0;
		return true;
	case PATH:
		if (strlen(value) >= key->size || (*value && *value != '/'))
			return false;
		text_copy(place, key->size, value);
		return true;
	case GROUP:
		return false;
	}
	if (good && (number < key->least || number > key->most)) {
		char bound[VALUE_BYTES];
		write_number(key->kind, number < key->least ? key->least : key->most, bound);
		snprintf(why, VALUE_BYTES, "%s %.60s is wanted", number < key->least ? "at least" : "at most", bound);
		good = false;
	}
	if (good)
		*(uint64_t *)place = (uint64_t)number;
	return good;
}

void config_init(struct config *ret)
{
	char why[VALUE_BYTES];
	memset(ret, 0, sizeof *ret);
	for (size_t i = 0; i < KEYS; i++)
		if (keys[i].kind != GROUP)
			set(ret, &keys[i], keys[i].initial, why);
}

/* --- reading --- */

struct line {
	const char *name; /* of the file */
	unsigned number;
	const char *begin;
	char *sentence;
};

static int wrong(const struct line *line, const char *at, const char *what, const char *subject)
{
	snprintf(line->sentence, CONFIG_SENTENCE_BYTES, "%s:%u:%u: %s%s%s", line->name, line->number,
		 (unsigned)(at - line->begin) + 1, subject, *subject ? ": " : "", what);
	return -EINVAL;
}

static const struct key *find(const char *name)
{
	for (size_t i = 0; i < KEYS; i++)
		if (keys[i].kind != GROUP && strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static int unknown(const struct line *line, const char *at, const char *name)
{
	const char *nearest = NULL;
	unsigned best = 4;
	for (size_t i = 0; i < KEYS; i++) {
		unsigned distance = keys[i].kind == GROUP ? best : word_distance(name, keys[i].name, best);
		if (distance < best) {
			best = distance;
			nearest = keys[i].name;
		}
	}
	char what[160];
	if (nearest)
		snprintf(what, sizeof what, "there is no such key; did you mean %s?", nearest);
	else
		snprintf(what, sizeof what, "there is no such key; `profd daemon --print-config` lists them");
	return wrong(line, at, what, name);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* One line without its end, [at, end). */
static int parse_line(struct config *config, const struct line *line, const char *end, bool seen[KEYS])
{
	const char *at = line->begin;
	char name[64], value[VALUE_BYTES], why[VALUE_BYTES];
	while (at < end && is_blank(*at))
		at++;
	while (end > at && is_blank(end[-1]))
		end--;
	if (at == end || *at == '#')
		return 0;
	for (const char *p = at; p < end; p++)
		if ((unsigned char)*p < ' ' && *p != '\t')
			return wrong(line, p, "a control character has no place here", "");
	const char *key_end = at;
	while (key_end < end && !is_blank(*key_end) && *key_end != '=')
		key_end++;
	const char *sign = key_end;
	while (sign < end && is_blank(*sign))
		sign++;
	if (sign == end || *sign != '=' || key_end == at)
		return wrong(line, sign, "a line `key = value` is wanted", "");
	if ((size_t)(key_end - at) >= sizeof name)
		return wrong(line, at, "there is no key this long", "");
	memcpy(name, at, (size_t)(key_end - at));
	name[key_end - at] = 0;
	text_clean(name, strlen(name));
	const struct key *key = find(name);
	if (!key)
		return unknown(line, at, name);
	if (seen[key - keys])
		return wrong(line, at, "it stands in this file already; which is meant?", name);
	seen[key - keys] = true;
	const char *first = sign + 1;
	while (first < end && is_blank(*first))
		first++;
	if ((size_t)(end - first) >= sizeof value)
		return wrong(line, first, wanted(key->kind), name);
	memcpy(value, first, (size_t)(end - first));
	value[end - first] = 0;
	return set(config, key, value, why) ? 0 : wrong(line, first, why, name);
}

int config_parse(struct config *config, const char *name, const char *text, size_t n,
		 char sentence[CONFIG_SENTENCE_BYTES])
{
	bool seen[KEYS] = {false};
	struct line line = {.name = name, .begin = text, .sentence = sentence};
	const char *end = text + n;
	while (line.begin < end) {
		const char *stop = memchr(line.begin, '\n', (size_t)(end - line.begin));
		const char *next = stop ? stop + 1 : end;
		line.number++;
		stop = stop ? stop : end;
		if (stop > line.begin && stop[-1] == '\r')
			stop--;
		int error = parse_line(config, &line, stop, seen);
		if (error)
			return error;
		line.begin = next;
	}
	return 0;
}

static int read_file(struct config *config, const char *path, bool needed, char *sentence)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat facts;
	int error = fd < 0 || fstat(fd, &facts) ? -errno : 0;
	if ((error == -ENOENT || error == -ENOTDIR) && !needed)
		return 0;
	if (!error && !S_ISREG(facts.st_mode))
		error = -EINVAL;
	char *text = error ? NULL : malloc(FILE_BYTES + 1);
	size_t n = 0;
	while (text && n <= FILE_BYTES) {
		ssize_t got = read(fd, text + n, FILE_BYTES + 1 - n);
		if (got < 0)
			error = -errno;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (!error && !text)
		error = -ENOMEM;
	if (!error && n > FILE_BYTES)
		error = -EFBIG;
	if (error)
		snprintf(sentence, CONFIG_SENTENCE_BYTES, "cannot read %.400s: %s", path,
			 error == -EINVAL ? "it is not a regular file" : strerror(-error));
	else
		error = config_parse(config, path, text, n, sentence);
	free(text);
	if (fd >= 0)
		close(fd);
	return error;
}

static int is_part(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);
	return *entry->d_name != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

static int read_folder(struct config *config, const char *folder, char *sentence)
{
	struct dirent **parts = NULL;
	int count = scandir(folder, &parts, is_part, alphasort), error = 0;
	if (count < 0 && errno != ENOENT && errno != ENOTDIR) {
		error = -errno;
		snprintf(sentence, CONFIG_SENTENCE_BYTES, "cannot read %s: %s", folder, strerror(errno));
	}
	for (int i = 0; i < count; i++) {
		char path[512];
		snprintf(path, sizeof path, "%s/%s", folder, parts[i]->d_name);
		if (!error)
			error = read_file(config, path, true, sentence);
		free(parts[i]);
	}
	free(parts);
	return error;
}

int config_load(struct config *ret, bool user, const char *file, char sentence[CONFIG_SENTENCE_BYTES])
{
	config_init(ret);
	if (file)
		return read_file(ret, file, true, sentence);
	if (!user) {
		int error = read_file(ret, SYSTEM_FILE, false, sentence);
		return error ? error : read_folder(ret, SYSTEM_FOLDER, sentence);
	}
	char path[512];
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (!home || *home != '/') {
		const struct passwd *entry = getpwuid(geteuid());
		home = entry ? entry->pw_dir : NULL;
	}
	if (base && *base == '/')
		snprintf(path, sizeof path, "%s/profd/profd.conf", base);
	else if (home && *home == '/')
		snprintf(path, sizeof path, "%s/.config/profd/profd.conf", home);
	else
		return 0;
	return read_file(ret, path, false, sentence);
}

void config_take(struct config *config, const struct config *fresh, void (*told)(void *context, const char *key),
		 void *context)
{
	for (size_t i = 0; i < KEYS; i++) {
		const struct key *key = &keys[i];
		char *to = (char *)config + key->offset;
		const char *from = (const char *)fresh + key->offset;
		if (key->kind == GROUP || memcmp(to, from, key->size) == 0)
			continue;
		if (key->live)
			memcpy(to, from, key->size);
		else if (told)
			told(context, key->name);
	}
}

/* --- writing --- */

static void value_text(const struct config *config, const struct key *key, char to[VALUE_BYTES])
{
	const void *place = (const char *)config + key->offset;
	if (key->kind == PATH)
		text_copy(to, VALUE_BYTES, place);
	else if (key->kind == FLAG)
		text_copy(to, VALUE_BYTES, *(const bool *)place ? "yes" : "no");
	else
		write_number(key->kind, (int64_t) * (const uint64_t *)place, to);
}

static void print_comment(const char *text, FILE *to)
{
	while (*text) {
		size_t n = strlen(text), cut = n;
		if (n > 96)
			for (cut = 96; cut > 40 && text[cut] != ' '; cut--)
				;
		fprintf(to, "# %.*s\n", (int)cut, text);
		text += cut;
		while (*text == ' ')
			text++;
	}
}

void config_print(const struct config *config, FILE *to)
{
	fputs("# Settings of profd-daemon: profd.conf(5). Lines that begin with # say what holds without them.\n", to);
	for (size_t i = 0; i < KEYS; i++) {
		const struct key *key = &keys[i];
		char value[VALUE_BYTES], least[VALUE_BYTES], most[VALUE_BYTES];
		if (key->kind == GROUP) {
			fprintf(to, "\n# --- %s\n", key->name);
			continue;
		}
		fputc('\n', to);
		print_comment(key->help, to);
		write_number(key->kind, key->least, least);
		write_number(key->kind, key->most, most);
		if (key->kind == FLAG)
			fputs("# yes or no", to);
		else if (key->kind == PATH)
			fputs("# an absolute path", to);
		else if (key->most == INT64_MAX)
			fprintf(to, "# at least %s", least);
		else
			fprintf(to, "# %s to %s", least, most);
		fprintf(to, "%s\n", key->live ? "" : "; takes a restart");
		value_text(config, key, value);
		fprintf(to, "%s%s =%s%s\n", strcmp(value, key->initial) == 0 ? "#" : "", key->name, *value ? " " : "",
			value);
	}
}
