/* fork_many.c - forks all the time with many libraries loaded; each child uses the loader and the heap, and exits.
 *
 *     fork_many --libraries=FOLDER --tell=FILE [--seconds=S]
 *
 * A step loads and unloads one library more, so that there is something new in the loader, and forks ten times, each in a range
 * `fork`. Prints one line of JSON: libraries, and hung and wrong, the children that did not end within 10 s or ended otherwise.
 * FILE is told how many steps and forks there were. After S seconds it goes on for as long as the file in STAY is there. */
#include "workload.h"

#include <dirent.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>

enum { FORKS_A_STEP = 10, CHILD_SECONDS = 10 };

static int count(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info, (void)size;
	++*(int *)context;
	return 0;
}

/* Every lock of the loader's and the heap's that a thread of the parent may have held. */
static void child_looks(int libraries)
{
	int n = 0;
	signal(SIGALRM, SIG_DFL);
	alarm(CHILD_SECONDS);
	dl_iterate_phdr(count, &n);
	void *self = dlopen(NULL, RTLD_NOW), *memory = malloc(100000);
	int good = n > libraries && self && memory && dlsym(self, "getpid");
	free(memory);
	_exit(good ? 0 : 1);
}

/* How many of the folder's files are loaded now; `last` is the one that was left out. */
static int load_all(const char *folder, char *last, size_t size)
{
	struct dirent *entry;
	int loaded = 0;
	DIR *files = opendir(folder);
	if (!files)
		return 0;
	*last = 0;
	while ((entry = readdir(files))) {
		if (entry->d_name[0] == '.')
			continue;
		loaded += *last && dlopen(last, RTLD_NOW);
		snprintf(last, size, "%s/%s", folder, entry->d_name);
	}
	closedir(files);
	return loaded;
}

int main(int argc, char **argv)
{
	(void)argc;
	char last[4096];
	int libraries = load_all(argument(argv, "libraries", "/nonexistent"), last, sizeof last);
	long steps = 0, hung = 0, wrong = 0;
	void (*push)(const char *), (*pop)(void);
	*(void **)&push = profd_function("profd_range_push");
	*(void **)&pop = profd_function("profd_range_pop");
	for (double end = seconds() + number(argv, "seconds", 1); seconds() < end || stays(); steps++) {
		void *one_more = dlopen(last, RTLD_NOW);
		for (int i = 0; i < FORKS_A_STEP; i++) {
			int status = 0;
			if (push && pop)
				push("fork");
			pid_t pid = fork();
			if (pid == 0)
				child_looks(libraries);
			if (push && pop)
				pop();
			waitpid(pid, &status, 0);
			hung += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
			wrong += status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
		}
		if (one_more)
			dlclose(one_more);
		step();
	}
	FILE *told = fopen(argument(argv, "tell", "/dev/null"), "w");
	if (told) {
		fprintf(told, "%ld %ld\n", steps, steps * FORKS_A_STEP);
		fclose(told);
	}
	printf("{\"libraries\": %d, \"hung\": %ld, \"wrong\": %ld}\n", libraries, hung, wrong);
	return 0;
}
