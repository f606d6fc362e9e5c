/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * JSON text in memory that grows. Commas and brackets are the caller's, as nothing here knows of
 * structure.
 */
#ifndef SHIFTLIB_JSON_H
#define SHIFTLIB_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: empty. One thread. */
struct sh_json {
	char *text; /* ends with a 0 that does not count */
	size_t length, room;
	bool failed; /* memory ran out: what is there is not whole */
};

void sh_json_print(struct sh_json *json, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void sh_json_text(struct sh_json *json, const char *text); /* taken as it is */
/* Writes a string with its quotes: valid UTF-8, whatever bytes @text has. NULL: null. */
void sh_json_string(struct sh_json *json, const char *text);
/*
 * Writes the same without quotes into memory that does not grow, cut at a whole character if it
 * does not fit. Returns how many bytes were written, without the 0 behind them.
 * Async-signal-safe; size is not 0.
 */
size_t sh_json_escape(const char *text, char *out, size_t size);
void sh_json_free(struct sh_json *json);

#endif
