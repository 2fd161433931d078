/* env.c - `profd env`: lines for a shell to evaluate. */
#include "client/start/inject.h"
#include "client/ui/failure.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>
#include <string.h>

/* In single quotes only the quote itself is special; in fish the backslash is, too, and in csh "!". */
static void quote(const char *text, const char *shell)
{
	putchar('\'');
	for (; *text; text++) {
		if (*text == '\'')
			fputs(strcmp(shell, "fish") == 0 ? "\\'" : "'\\''", stdout);
		else if (*text == '\\' && strcmp(shell, "fish") == 0)
			fputs("\\\\", stdout);
		else if (*text == '!' && strcmp(shell, "csh") == 0)
			fputs("\\!", stdout);
		else
			putchar(*text);
	}
	putchar('\'');
}

int command_env(struct arguments *arguments)
{
	const char *shell = arguments_text(arguments, "shell", "sh");
	struct inject plan[INJECT_MAX];
	int count = inject_plan(plan, arguments_text(arguments, "name", NULL), arguments_text(arguments, "job", NULL));

	if (count < 0)
		return EXIT_FAILED;
	/* Programs that read such a file take everything up to the end of the line as it is. */
	for (int i = 0; i < count && strcmp(shell, "file") == 0; i++) {
		if (plan[i].value && strchr(plan[i].value, '\n')) {
			inject_deinit(plan, count);
			return fail(EXIT_USAGE, "a file of variables cannot hold a value of more than one line");
		}
	}
	for (int i = 0; i < count; i++) {
		if (!plan[i].value)
			continue;
		if (strcmp(shell, "file") == 0) {
			printf("%s=%s\n", plan[i].name, plan[i].value);
			continue;
		}
		if (strcmp(shell, "fish") == 0)
			printf("set -gx %s ", plan[i].name);
		else if (strcmp(shell, "csh") == 0)
			printf("setenv %s ", plan[i].name);
		else
			printf("export %s=", plan[i].name);
		quote(plan[i].value, shell);
		puts(";");
	}
	inject_deinit(plan, count);
	return EXIT_DONE;
}
