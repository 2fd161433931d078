/* shapes.c - see shapes.h. No locks. */
#include "shapes.h"

#include "proto/base/facts.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* So many tensors of an operator are told. */
#define TENSORS_MOST 3
#define TENSOR_BYTES 64

/* "float [64, 128]". False: it is no tensor, or has no shape. */
static bool tell_tensor(const cJSON *dims, const cJSON *type, char to[TENSOR_BYTES])
{
	const cJSON *size;
	if (!cJSON_IsArray(dims) || !cJSON_GetArraySize(dims) || !cJSON_IsString(type))
		return false;
	size_t n = (size_t)snprintf(to, TENSOR_BYTES, "%.20s [", type->valuestring);
	cJSON_ArrayForEach(size, dims)
	{
		if (!cJSON_IsNumber(size) || n > TENSOR_BYTES - 24)
			return false;
		n += (size_t)snprintf(to + n, TENSOR_BYTES - n, "%s%.0f", size == dims->child ? "" : ", ",
				      size->valuedouble);
	}
	if (n > TENSOR_BYTES - 2)
		return false;
	text_copy(to + n, TENSOR_BYTES - n, "]");
	return true;
}

/* Adds the inputs that have a shape, as many as there is room for. */
static void add_inputs(const char *dims_text, const char *types_text, char *ret, size_t bytes)
{
	cJSON *dims = dims_text ? cJSON_Parse(dims_text) : NULL, *types = types_text ? cJSON_Parse(types_text) : NULL;
	size_t told = 0;
	for (int i = 0; i < cJSON_GetArraySize(dims) && told < TENSORS_MOST; i++) {
		char tensor[TENSOR_BYTES];
		size_t n = strlen(ret);
		if (!tell_tensor(cJSON_GetArrayItem(dims, i), cJSON_GetArrayItem(types, i), tensor))
			continue;
		if (n + strlen(tensor) + sizeof " and " > bytes)
			break;
		snprintf(ret + n, bytes - n, "%s%s", told ? " and " : " of ", tensor);
		told++;
	}
	cJSON_Delete(dims);
	cJSON_Delete(types);
}

void shapes_of_kernel(sqlite3 *db, uint32_t kernel, const struct findings *findings, char *ret, size_t bytes)
{
	sqlite3_stmt *row = NULL;
	*ret = '\0';
	/* Goes once over the operators: their ids have no index. */
	if (sqlite3_prepare_v2(
		    db,
		    "SELECT s.text, i.dims, i.types FROM operators o JOIN strings s ON s.id = o.name LEFT JOIN inputs i ON i.id = o.inputs "
		    "WHERE o.id IN (SELECT l.range FROM kernel_records k JOIN launches l ON l.correlation = k.correlation WHERE "
		    "k.name = ?1 AND l.step BETWEEN ?2 AND ?3) GROUP BY o.name, o.inputs ORDER BY count(*) DESC, o.name, o.inputs LIMIT 1",
		    -1, &row, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_int64(row, 1, (int64_t)kernel);
	sqlite3_bind_int64(row, 2, (int64_t)findings->first + 1);
	sqlite3_bind_int64(row, 3, (int64_t)findings->last);
	if (sqlite3_step(row) == SQLITE_ROW && sqlite3_column_text(row, 0)) {
		snprintf(ret, bytes, ", most often by %.60s", (const char *)sqlite3_column_text(row, 0));
		add_inputs((const char *)sqlite3_column_text(row, 1), (const char *)sqlite3_column_text(row, 2), ret,
			   bytes);
	}
	sqlite3_finalize(row);
}
