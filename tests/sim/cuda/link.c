/* link.c - linking at run time: PTX texts are put one behind the other, any other input makes the result any image. Any thread,
 * a link state belongs to one. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlinkState_st {
	char *image; /* zero-terminated; handed to the program by cuLinkComplete */
	size_t bytes;
};

static CUresult append(struct CUlinkState_st *state, const char *data, size_t bytes)
{
	char *grown = realloc(state->image, state->bytes + bytes + 1);
	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	state->image = grown;
	memcpy(grown + state->bytes, data, bytes);
	state->bytes += strnlen(grown + state->bytes, bytes);
	grown[state->bytes] = 0;
	return CUDA_SUCCESS;
}

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
	CALL(cuLinkCreate, _v2);
	CONTEXT(context);
	(void)context, (void)count, (void)options, (void)values;
	*state = calloc(1, sizeof **state);
	RETURN(*state ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
			  unsigned int count, CUjit_option *options, void **values)
{
	CALL(cuLinkAddData, _v2);
	(void)type, (void)name, (void)count, (void)options, (void)values;
	CHECK(state && data, CUDA_ERROR_INVALID_VALUE);
	RETURN(append(state, data, bytes));
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
			  CUjit_option *options, void **values)
{
	CALL(cuLinkAddFile, _v2);
	(void)type, (void)count, (void)options, (void)values;
	char *image = image_read(path);
	CHECK(image, CUDA_ERROR_FILE_NOT_FOUND);
	CUresult result = append(state, image, strlen(image));
	free(image);
	RETURN(result);
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes)
{
	CALL(cuLinkComplete, );
	CHECK(state && state->image && image, CUDA_ERROR_INVALID_VALUE);
	*image = state->image;
	if (bytes)
		*bytes = state->bytes;
	RETURN(CUDA_SUCCESS);
}

CUresult cuLinkDestroy(CUlinkState state)
{
	CALL(cuLinkDestroy, );
	CHECK(state, CUDA_ERROR_INVALID_VALUE);
	free(state->image);
	free(state);
	RETURN(CUDA_SUCCESS);
}
