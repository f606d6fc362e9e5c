/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/exporter/exporter.h"

#define TEXT_MAX 1024u /* bytes of a series' name and labels */

enum type { GAUGE, COUNTER, HISTOGRAM };

static const struct {
	enum type type;
	const char *name, *help;
} families[FAMILY_COUNT] = {
#define X(id, type, name, help) [FAMILY_##id] = { type, name, help },
	FAMILIES(X)
#undef X
};

static const char *type_name(enum type type)
{
	static const char *const names[] = {
		[GAUGE] = "gauge",
		[COUNTER] = "counter",
		[HISTOGRAM] = "histogram",
	};

	return names[type];
}

/* Is it a counter or a histogram, and no gauge? */
static bool series_counts(enum family family)
{
	return families[family].type != GAUGE;
}

/* ---- the text of a series ------------------------------------------------------------------- */

struct text {
	char at[TEXT_MAX];
	size_t n;
	bool full;
};

static void text_put(struct text *text, const char *bytes, size_t n)
{
	if (text->n + n >= sizeof(text->at)) {
		text->full = true;
		return;
	}
	memcpy(text->at + text->n, bytes, n);
	text->n += n;
	text->at[text->n] = '\0';
}

static void text_string(struct text *text, const char *string)
{
	text_put(text, string, strlen(string));
}

/* How much of a value is taken, without half of a character: it is UTF-8, by jansson's word. */
static size_t label_length(const char *value)
{
	size_t n = strnlen(value, LABEL_MAX + 1);

	if (n <= LABEL_MAX)
		return n;
	for (n = LABEL_MAX; n && ((unsigned char)value[n] & 0xc0) == 0x80;)
		n--;
	return n;
}

static void text_value(struct text *text, const char *value)
{
	size_t n = label_length(value);

	for (size_t i = 0; i < n; i++) {
		if (value[i] == '\n')
			text_string(text, "\\n");
		else if (value[i] == '"' || value[i] == '\\')
			text_put(text, (const char[]){ '\\', value[i] }, 2);
		else
			text_put(text, &value[i], 1);
	}
}

static void text_labels(struct text *text, va_list labels)
{
	const char *name, *before = "{";

	while ((name = va_arg(labels, const char *))) {
		const char *value = va_arg(labels, const char *);

		text_string(text, before);
		text_string(text, name);
		text_string(text, "=\"");
		text_value(text, value ? value : "");
		text_string(text, "\"");
		before = ",";
	}
	if (*before == ',')
		text_string(text, "}");
}

/* ---- sets of series ------------------------------------------------------------------------- */

static void series_drop(struct series *series)
{
	if (series->dropped)
		++*series->dropped;
}

/* NULL: it is new, and there is no room for more. */
static json_t *series_place(struct series *series, enum family family, const char *text)
{
	json_t *place;

	if (!series->of[family])
		series->of[family] = json_object();
	place = json_object_get(series->of[family], text);
	if (place)
		return place;
	if (series->n >= series->most) {
		series_drop(series);
		return NULL;
	}
	if (json_object_set_new(series->of[family], text, json_real(0)))
		return NULL;
	series->n++;
	return json_object_get(series->of[family], text);
}

void series_add(struct series *series, enum family family, const char *suffix, double value, ...)
{
	struct text text = { .n = 0 };
	json_t *place;
	va_list labels;

	text_string(&text, families[family].name);
	text_string(&text, suffix);
	va_start(labels, value);
	text_labels(&text, labels);
	va_end(labels);
	if (text.full || !isfinite(value) || value < 0) {
		series_drop(series);
		return;
	}
	place = series_place(series, family, text.at);
	if (place)
		json_real_set(place, json_real_value(place) + value);
}

void series_max(struct series *series, enum family family, double value)
{
	json_t *place = series_place(series, family, families[family].name);

	if (place && isfinite(value) && value > json_real_value(place))
		json_real_set(place, value);
}

void series_rise(struct series *to, const struct series *before, const struct series *now,
		 bool counted)
{
	const char *text;
	json_t *value, *place;

	for (unsigned i = 0; i < FAMILY_COUNT; i++) {
		json_object_foreach(now->of[i], text, value)
		{
			double rise = json_real_value(value) -
				      json_real_value(json_object_get(before->of[i], text));

			place = series_place(to, (enum family)i, text);
			if (place && counted && rise > 0)
				json_real_set(place, json_real_value(place) + rise);
		}
	}
}

void series_free(struct series *series)
{
	for (unsigned i = 0; i < FAMILY_COUNT; i++)
		json_decref(series->of[i]);
	memset(series->of, 0, sizeof(series->of));
	series->n = 0;
}

/* ---- the page ------------------------------------------------------------------------------- */

static void series_print_family(FILE *out, json_t *series, unsigned family)
{
	const char *text;
	json_t *value;

	if (!json_object_size(series))
		return;
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", families[family].name, families[family].help,
		families[family].name, type_name(families[family].type));
	json_object_foreach(series, text, value)
		fprintf(out, "%s %.15g\n", text, json_real_value(value));
}

void series_print(FILE *out, const struct series *counters, const struct series *gauges)
{
	for (unsigned i = 0; i < FAMILY_COUNT; i++)
		series_print_family(out, (series_counts((enum family)i) ? counters : gauges)->of[i],
				    i);
}
