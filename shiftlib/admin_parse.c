/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "shiftlib/admin.h"

static const struct {
	const char *word;
	bool device;
} admin_words[] = {
	[ADMIN_VERSION] = { "version", false }, [ADMIN_STATUS] = { "status", false },
	[ADMIN_DRAIN] = { "drain", true },	[ADMIN_UNDRAIN] = { "undrain", true },
	[ADMIN_USERS] = { "users", true },
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
	if (admin_words[i].device)
		return parse_device(rest, request->device)
			       ? 0
			       : parse_fail("a device name is missing or malformed", why);
	return line[length] ? parse_fail("this request takes no argument", why) : 0;
}
