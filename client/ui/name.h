/* name.h - names of kernels, operators and ranges in less room. What says least goes first: arguments, then namespaces, then
 * the arguments of templates. Two different names never come out alike. */
#ifndef PROFD_CLIENT_UI_NAME_H
#define PROFD_CLIENT_UI_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* How much of a name is left out. */
enum name_form {
	NAME_WHOLE,
	NAME_BARE,    /* without the type that is returned and the arguments: f<a::b<c>>::g */
	NAME_LOCAL,   /* without namespaces, and what lies inside of functions: g, f<b<c>> */
	NAME_FLAT,    /* the arguments of a template without theirs: f<b> */
	NAME_PLAINEST /* without the arguments of templates: f */
};

/* The name in this form, to be freed. What is no C++ name stays as it is, or nearly so. */
char *name_form(const char *name, enum name_form form);

/* Replaces each of `count` texts (on the heap) by one of at most `width` cells. `names`: they are shortened by meaning, else
 * they are cut. Those that differ differ afterwards. Below 8 cells nothing is promised. */
void names_fit(char **texts, size_t count, size_t width, bool names);

#endif
