/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "shiftlib/admin/admin.h"

enum admin_argument { TAKES_NONE, TAKES_DEVICE, TAKES_NUMBER };

static const struct {
	const char *word;
	enum admin_argument takes;
} admin_words[] = {
	[ADMIN_VERSION] = { "version", TAKES_NONE },   [ADMIN_STATUS] = { "status", TAKES_NONE },
	[ADMIN_OPEN] = { "open", TAKES_NONE },	       [ADMIN_DRAIN] = { "drain", TAKES_DEVICE },
	[ADMIN_UNDRAIN] = { "undrain", TAKES_DEVICE }, [ADMIN_USERS] = { "users", TAKES_DEVICE },
	[ADMIN_EVENTS] = { "events", TAKES_NUMBER },   [ADMIN_METRICS] = { "metrics", TAKES_NONE },
	[ADMIN_FAREWELL] = { "farewell", TAKES_NONE },
};

static bool parse_device(const char *text, char out[ADMIN_DEVICE_MAX])
{
	size_t i, length = strlen(text);

	if (!length || length >= ADMIN_DEVICE_MAX)
		return false;
	for (i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i]))
			return false;
	memcpy(out, text, length + 1);
	return true;
}

static bool parse_number(const char *text, uint64_t *out)
{
	size_t length = strlen(text);

	if (!length || length > 18 || strspn(text, "0123456789") != length)
		return false;
	for (*out = 0; *text; text++)
		*out = *out * 10 + (uint64_t)(*text - '0');
	return true;
}

static int parse_fail(const char *clause, const char **why)
{
	*why = clause;
	return -EINVAL;
}

int admin_parse(const char *line, struct admin_request *request, const char **why)
{
	size_t i, length = strcspn(line, " ");
	const char *rest = line[length] ? line + length + 1 : "";

	memset(request, 0, sizeof(*request));
	for (i = 0; i < sizeof(admin_words) / sizeof(*admin_words); i++)
		if (!strncmp(line, admin_words[i].word, length) && !admin_words[i].word[length])
			break;
	if (i == sizeof(admin_words) / sizeof(*admin_words))
		return parse_fail("no such request", why);
	request->word = (enum admin_word)i;
	switch (admin_words[i].takes) {
	case TAKES_DEVICE:
		return parse_device(rest, request->device)
			       ? 0
			       : parse_fail("a device name is missing or malformed", why);
	case TAKES_NUMBER:
		return parse_number(rest, &request->number)
			       ? 0
			       : parse_fail("a number is missing or malformed", why);
	case TAKES_NONE: break;
	}
	return line[length] ? parse_fail("this request takes no argument", why) : 0;
}
