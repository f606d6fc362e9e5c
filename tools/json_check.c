/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whether text is JSON, and nothing more: for answers that are handed on as they are. */
#include <ctype.h>
#include <string.h>

#include "tools/json_check.h"

#define CHECK_DEPTH 32

struct check {
	const char *at, *end;
	unsigned depth;
};

static char check_peek(struct check *c)
{
	while (c->at < c->end && memchr(" \t\n\r", *c->at, 4))
		c->at++;
	return c->at < c->end ? *c->at : '\0';
}

static bool check_take(struct check *c, char wanted)
{
	if (check_peek(c) != wanted)
		return false;
	c->at++;
	return true;
}

static bool check_escape(struct check *c)
{
	if (c->at == c->end)
		return false;
	if (*c->at++ != 'u')
		return strchr("\"\\/bfnrt", c->at[-1]) && c->at[-1];
	for (int i = 0; i < 4; i++, c->at++)
		if (c->at == c->end || !isxdigit((unsigned char)*c->at))
			return false;
	return true;
}

static bool check_string(struct check *c)
{
	if (!check_take(c, '"'))
		return false;
	while (c->at < c->end && (unsigned char)*c->at >= 0x20) {
		char byte = *c->at++;

		if (byte == '"')
			return true;
		if (byte == '\\' && !check_escape(c))
			return false;
	}
	return false;
}

static bool check_digits(struct check *c)
{
	const char *from = c->at;

	while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
		c->at++;
	return c->at > from;
}

static bool check_number(struct check *c)
{
	bool zero;

	c->at += *c->at == '-';
	zero = c->at < c->end && *c->at == '0';
	c->at += zero;
	if (!zero && !check_digits(c))
		return false;
	if (c->at < c->end && *c->at == '.') {
		c->at++;
		if (!check_digits(c))
			return false;
	}
	if (c->at == c->end || (*c->at | 0x20) != 'e')
		return true;
	c->at++;
	if (c->at < c->end && (*c->at == '+' || *c->at == '-'))
		c->at++;
	return check_digits(c);
}

static bool check_word(struct check *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n))
		return false;
	c->at += n;
	return true;
}

static bool check_value(struct check *c);

/* Checks the members behind an opening bracket. */
static bool check_members(struct check *c, char close, bool named)
{
	if (check_take(c, close))
		return true;
	do {
		if (named && (!check_string(c) || !check_take(c, ':')))
			return false;
		if (!check_value(c))
			return false;
	} while (check_take(c, ','));
	return check_take(c, close);
}

static bool check_nested(struct check *c, char close, bool named)
{
	bool good;

	c->at++;
	if (++c->depth > CHECK_DEPTH)
		return false;
	good = check_members(c, close, named);
	c->depth--;
	return good;
}

static bool check_value(struct check *c)
{
	switch (check_peek(c)) {
	case '{': return check_nested(c, '}', true);
	case '[': return check_nested(c, ']', false);
	case '"': return check_string(c);
	case 't': return check_word(c, "true");
	case 'f': return check_word(c, "false");
	case 'n': return check_word(c, "null");
	case '\0': return false;
	default: return check_number(c);
	}
}

bool json_check(const char *text, size_t length)
{
	struct check c = { .at = text, .end = text + length };

	return check_peek(&c) == '{' && check_value(&c) && (check_peek(&c), c.at == c.end);
}
