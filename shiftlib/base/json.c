/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/base/json.h"

#define JSON_ROOM_MIN  256
#define JSON_CHARACTER 6 /* bytes that one may take: \u0000 */

static bool json_reserve(struct sh_json *json, size_t more)
{
	size_t room = json->room ? json->room : JSON_ROOM_MIN;
	char *text;

	if (json->failed)
		return false;
	while (room - json->length <= more)
		room *= 2;
	if (room == json->room)
		return true;
	text = realloc(json->text, room);
	if (!text) {
		json->failed = true;
		return false;
	}
	json->text = text;
	json->room = room;
	return true;
}

static void json_append(struct sh_json *json, const char *bytes, size_t n)
{
	if (!json_reserve(json, n))
		return;
	memcpy(json->text + json->length, bytes, n);
	json->length += n;
	json->text[json->length] = 0;
}

static locale_t plain; /* 0: out of memory, once */

static void plain_make(void)
{
	plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

/* The program's locale may have a decimal comma, which no JSON has. */
static int json_vprint(char *out, size_t size, const char *format, va_list ap)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	locale_t program = (locale_t)0;
	int n;

	pthread_once(&once, plain_make);
	if (plain)
		program = uselocale(plain);
	n = vsnprintf(out, size, format, ap);
	if (plain)
		uselocale(program);
	return n;
}

void sh_json_print(struct sh_json *json, const char *format, ...)
{
	size_t room;
	va_list ap;
	int n;

	if (!json_reserve(json, 1))
		return;
	room = json->room - json->length;
	va_start(ap, format);
	n = json_vprint(json->text + json->length, room, format, ap);
	va_end(ap);
	if (n < 0 || !json_reserve(json, (size_t)n))
		return;
	if ((size_t)n >= room) {
		va_start(ap, format);
		json_vprint(json->text + json->length, (size_t)n + 1, format, ap);
		va_end(ap);
	}
	json->length += (size_t)n;
}

static bool json_continues(const unsigned char *at, unsigned int n)
{
	unsigned int i;

	for (i = 1; i <= n; i++)
		if ((at[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* Length of the UTF-8 sequence at @at, 0 if it is none (RFC 3629, section 4). */
static size_t json_utf8(const unsigned char *at)
{
	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		return json_continues(at, 1) ? 2 : 0;
	if ((at[0] & 0xf0) == 0xe0) {
		if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f))
			return 0;
		return json_continues(at, 2) ? 3 : 0;
	}
	if (at[0] >= 0xf0 && at[0] <= 0xf4) {
		if ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
			return 0;
		return json_continues(at, 3) ? 4 : 0;
	}
	return 0;
}

/* Returns how many bytes from @at on need no escape: most strings are of one piece. */
static size_t json_plain(const unsigned char *at)
{
	size_t n = 0;

	while (at[n] >= 0x20 && at[n] < 0x7f && at[n] != '"' && at[n] != '\\')
		n++;
	return n;
}

/* Writes one character as it stands in a string; returns how many bytes of the text it takes. */
static size_t json_character(const unsigned char *at, char out[JSON_CHARACTER], size_t *length)
{
	static const char hex[] = "0123456789abcdef";
	size_t n = json_utf8(at);

	if (!n) {
		memcpy(out, "\\ufffd", 6);
		*length = 6;
		return 1;
	}
	if (*at == '"' || *at == '\\') {
		out[0] = '\\';
		out[1] = (char)*at;
		*length = 2;
	} else if (*at < 0x20 || *at == 0x7f) {
		memcpy(out, "\\u00", 4);
		out[4] = hex[*at >> 4];
		out[5] = hex[*at & 15];
		*length = 6;
	} else {
		memcpy(out, at, n);
		*length = n;
	}
	return n;
}

size_t sh_json_escape(const char *text, char *out, size_t size)
{
	const unsigned char *at = (const unsigned char *)text;
	char character[JSON_CHARACTER];
	size_t length, used = 0;

	while (*at) {
		length = json_plain(at);
		if (length && used + length < size) {
			memcpy(out + used, at, length);
			used += length;
			at += length;
			continue;
		}
		at += json_character(at, character, &length);
		if (used + length >= size)
			break;
		memcpy(out + used, character, length);
		used += length;
	}
	out[used] = 0;
	return used;
}

void sh_json_string(struct sh_json *json, const char *text)
{
	size_t room;

	if (!text) {
		json_append(json, "null", 4);
		return;
	}
	json_append(json, "\"", 1);
	room = strlen(text) * JSON_CHARACTER + 1;
	if (json_reserve(json, room))
		json->length += sh_json_escape(text, json->text + json->length, room);
	json_append(json, "\"", 1);
}

void sh_json_text(struct sh_json *json, const char *text)
{
	json_append(json, text, strlen(text));
}

void sh_json_free(struct sh_json *json)
{
	free(json->text);
	memset(json, 0, sizeof(*json));
}
