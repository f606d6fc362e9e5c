/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scrub.h"

#define SCRUB_MARK  "***"
#define KV_SHOWN    60 /* bytes of a malformed address that kvclient/url.c shows */
#define SCRUB_LEAST 4  /* bytes of a word that is cut out wherever it stands */

static struct {
	char **word;
	unsigned n;
} known;

/* Where the word ends that begins here: an address has neither blanks nor quotes. */
static size_t scrub_word(const char *text)
{
	return strcspn(text, " \t\r\n\"'<>");
}

/*
 * Length of what stands between "://" and the host, '@' included; 0: nothing. A password may hold
 * "://" and ',' itself, so the last '@' of the word counts: rather a host too much than a password.
 */
static size_t scrub_user(const char *behind_scheme)
{
	size_t end = scrub_word(behind_scheme);

	while (end && behind_scheme[end - 1] != '@')
		end--;
	return end;
}

static int scrub_hex(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* "%40" -> "@", in place. */
static void scrub_decode(char *text)
{
	char *out = text;

	for (; *text; text++) {
		bool escaped = *text == '%' && isxdigit((unsigned char)text[1]) &&
			       isxdigit((unsigned char)text[2]);

		*out++ = escaped ? (char)(scrub_hex(text[1]) << 4 | scrub_hex(text[2])) : *text;
		text += escaped ? 2 : 0;
	}
	*out = '\0';
}

static void scrub_keep(const char *from, size_t n, bool decode)
{
	char **grown, *word;

	if (n < SCRUB_LEAST)
		return;
	grown = realloc(known.word, (known.n + 1) * sizeof(*grown));
	word = grown ? strndup(from, n) : NULL;
	if (grown)
		known.word = grown;
	if (!word)
		return;
	if (decode)
		scrub_decode(word);
	known.word[known.n++] = word;
}

/* The password of "USER:PASSWORD", as written and as meant; "default" is a user, and a word. */
static void scrub_learn_user(const char *user, size_t n)
{
	const char *colon = memchr(user, ':', n);

	if (!colon)
		return;
	for (int decode = 0; decode < 2; decode++)
		scrub_keep(colon + 1, n - (size_t)(colon - user) - 1, decode);
}

void scrub_learn(const char *url)
{
	const char *at = url, *end;

	while ((at = strstr(at, "://"))) {
		at += strlen("://");
		end = at + strcspn(at, "@ ");
		if (*end == '@')
			scrub_learn_user(at, (size_t)(end - at));
	}
}

void scrub_learn_all(const char *text)
{
	scrub_keep(text, strlen(text), false);
	scrub_keep(text, strnlen(text, KV_SHOWN), false);
}

/* Length of the learnt word that begins here; 0: none. The longest counts. */
static size_t scrub_known(const char *text)
{
	size_t longest = 0, n;

	for (unsigned i = 0; i < known.n; i++) {
		n = strlen(known.word[i]);
		if (n > longest && !strncmp(text, known.word[i], n))
			longest = n;
	}
	return longest;
}

char *scrub(const char *text)
{
	size_t length, cut;
	char *out = NULL;
	FILE *to = open_memstream(&out, &length);

	if (!to)
		return NULL;
	while (*text) {
		cut = scrub_known(text);
		if (!cut && !strncmp(text, "://", strlen("://"))) {
			fputs("://", to);
			text += strlen("://");
			cut = scrub_user(text);
			if (cut) {
				fputs(SCRUB_MARK "@", to);
				text += cut;
			}
			continue;
		}
		fputs(cut ? SCRUB_MARK : "", to);
		if (!cut)
			fputc(*text, to);
		text += cut ? cut : 1;
	}
	if (fclose(to)) {
		free(out);
		return NULL;
	}
	return out;
}

void scrub_forget(void)
{
	for (unsigned i = 0; i < known.n; i++)
		free(known.word[i]);
	free(known.word);
	known.word = NULL;
	known.n = 0;
}
