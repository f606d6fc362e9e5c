// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Every field of every public structure, by the table that generate.py makes of the installed
 * header. Values that a run alone decides (addresses) are printed as what they mean: which object a
 * pointer leads to; events that were acknowledged as how many more the field has than the program
 * acknowledged.
 */
#include "tests/e2e/fields/fields.h"

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/pair.h"

enum kind { KIND_NUMBER, KIND_TEXT, KIND_POINTER, KIND_FUNCTION, KIND_OPS, KIND_BYTES, KIND_PART };

struct field {
	const char *name;
	size_t offset, size;
	enum kind kind;
};

struct type {
	const char *name;
	const struct field *fields;
	size_t n;
};

#define FIELD(of, member, kind)                                                                    \
	{                                                                                          \
#member, offsetof(of, member), sizeof(((of *)0)->member), kind                     \
	}
#define TYPE(of)                                                                                   \
	{                                                                                          \
		"" #of, fields_##of, sizeof(fields_##of) / sizeof(*fields_##of)                    \
	}
#include "walk.h"

enum { MAX_OBJECTS = 64, N_TYPES = sizeof(types) / sizeof(*types) };

static struct object {
	const char *name;
	const struct type *type;
	const uint8_t *at;
	uint32_t completion, async;
} objects[MAX_OBJECTS];
static int n_objects;

void walk_add(const char *name, const char *of, void *at)
{
	size_t i = 0;

	while (i < N_TYPES && strcmp(types[i].name, of))
		i++;
	must(i < N_TYPES, "a public structure of that name");
	must(n_objects < MAX_OBJECTS, "room for one more object");
	if (!at)
		say("HAS NO %s %s", of, name);
	else
		objects[n_objects++] = (struct object){ .name = name, .type = &types[i], .at = at };
}

void walk_remove(const void *at)
{
	int i, kept = 0;

	for (i = 0; i < n_objects; i++)
		if (objects[i].at != at)
			objects[kept++] = objects[i];
	n_objects = kept;
}

void walk_acked(const void *at, uint32_t completion, uint32_t async)
{
	for (int i = 0; i < n_objects; i++)
		if (objects[i].at == at) {
			objects[i].completion += completion;
			objects[i].async += async;
		}
}

static const char *pointed(const void *to)
{
	for (int i = 0; i < n_objects; i++)
		if (objects[i].at == to)
			return objects[i].name;
	return to ? "somewhere" : "null";
}

/* One digit a pointer of the table: is there one? */
static void print_ops(const uint8_t *at, size_t size)
{
	void *const *pointers = (void *const *)at;

	for (size_t i = 0; i < size / sizeof(*pointers); i++)
		putchar(pointers[i] ? '1' : '0');
	putchar('\n');
}

static void print_bytes(const uint8_t *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		printf("%02x", at[i]);
	putchar('\n');
}

static void print_number(const struct object *object, const struct field *field)
{
	const uint8_t *at = object->at + field->offset;
	uint64_t value = 0;

	memcpy(&value, at, field->size);
	if (!strcmp(field->name, "comp_events_completed"))
		value -= object->completion;
	else if (!strcmp(field->name, "async_events_completed") ||
		 !strcmp(field->name, "events_completed"))
		value -= object->async;
	printf("%lld\n", field->size == 4 ? (long long)(int32_t)value : (long long)value);
}

static void print_field(const char *step, const struct object *object, const struct field *field)
{
	const uint8_t *at = object->at + field->offset;
	void *pointer;

	if (field->kind == KIND_PART)
		return;
	printf("FIELD %s %s %s.%s ", step, object->name, object->type->name, field->name);
	switch (field->kind) {
	case KIND_NUMBER: print_number(object, field); break;
	case KIND_TEXT: printf("%.*s\n", (int)field->size, (const char *)at); break;
	case KIND_POINTER:
		memcpy(&pointer, at, sizeof(pointer));
		printf("%s\n", pointed(pointer));
		break;
	case KIND_FUNCTION:
	case KIND_OPS: print_ops(at, field->size); break;
	case KIND_BYTES:
	case KIND_PART: print_bytes(at, field->size); break;
	}
}

void walk(const char *step)
{
	for (int i = 0; i < n_objects; i++)
		for (size_t k = 0; k < objects[i].type->n; k++)
			print_field(step, &objects[i], &objects[i].type->fields[k]);
	for (int i = 0; i < n_objects; i++)
		printf("ACKED %s %s %u %u\n", step, objects[i].name, objects[i].completion,
		       objects[i].async);
	fflush(stdout);
}
