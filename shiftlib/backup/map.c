/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shiftlib/backup/map.h"

struct parser {
	const char *text, *at;
	const struct backup_nic *nics;
	struct backup_map *map;
	bool syntax_only;
	bool named[BACKUP_MAP_MAX_NICS];
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 4, 5))) static int
backup_map_fail(const struct parser *p, int rc, const char *where, const char *fmt, ...)
{
	char why[BACKUP_MAP_ERR_MAX];
	va_list ap;

	if (!p->err || !p->errlen)
		return rc;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	snprintf(p->err, p->errlen, "backup map \"%.64s\", character %zu: %s", p->text,
		 (size_t)(where - p->text) + 1, why);
	return rc;
}

static void backup_map_list_devices(const struct parser *p, char *buf, size_t cap)
{
	size_t used = 0;
	int n;

	snprintf(buf, cap, "there is no RDMA device here");
	for (uint32_t i = 0; i < p->map->n_nics && used < cap; i++) {
		n = snprintf(buf + used, cap - used, "%s%s", i ? ", " : "there are ",
			     p->nics[i].name);
		used += n > 0 ? (size_t)n : 0;
	}
}

static bool backup_map_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Takes one device name; 0 and its number, or an error at the name's place. */
static int backup_map_device(struct parser *p, uint8_t *nic)
{
	const char *start = p->at;
	char devices[160];
	size_t len;

	while (backup_map_name_char(*p->at))
		p->at++;
	len = (size_t)(p->at - start);
	if (!len)
		return backup_map_fail(p, -EINVAL, start, "a device name is missing");
	*nic = 0;
	if (p->syntax_only)
		return 0;
	for (uint32_t i = 0; i < p->map->n_nics; i++) {
		if (strlen(p->nics[i].name) == len && !memcmp(p->nics[i].name, start, len)) {
			*nic = (uint8_t)i;
			return 0;
		}
	}
	backup_map_list_devices(p, devices, sizeof(devices));
	return backup_map_fail(p, -ENODEV, start, "no device %.*s; %s", (int)(len < 64 ? len : 64),
			       start, devices);
}

static bool backup_map_same_layer(const struct parser *p, uint32_t a, uint32_t b)
{
	uint8_t la = p->nics[a].link_layer, lb = p->nics[b].link_layer;

	return la == lb || !la || !lb;
}

static int backup_map_add(struct parser *p, const char *where, uint8_t nic, uint8_t backup)
{
	struct backup_map *map = p->map;
	uint8_t *n = &map->n_backups[nic];

	if (p->syntax_only)
		return 0;
	if (nic == backup)
		return backup_map_fail(p, -EINVAL, where, "%s cannot be its own backup",
				       p->nics[nic].name);
	if (!backup_map_same_layer(p, nic, backup))
		return backup_map_fail(p, -EPROTOTYPE, where,
				       "%s and %s have different link layers", p->nics[nic].name,
				       p->nics[backup].name);
	for (uint8_t i = 0; i < *n; i++)
		if (map->backups[nic][i] == backup)
			return backup_map_fail(p, -EINVAL, where, "%s is listed twice for %s",
					       p->nics[backup].name, p->nics[nic].name);
	if (*n == BACKUP_MAP_MAX_BACKUPS)
		return backup_map_fail(p, -EINVAL, where, "more than %u backups for %s",
				       BACKUP_MAP_MAX_BACKUPS, p->nics[nic].name);
	map->backups[nic][(*n)++] = backup;
	return 0;
}

/* DEFAULT=BACKUP[:BACKUP...] */
static int backup_map_entry(struct parser *p)
{
	const char *start = p->at;
	uint8_t nic, backup;
	int rc;

	rc = backup_map_device(p, &nic);
	if (rc)
		return rc;
	if (p->named[nic] && !p->syntax_only)
		return backup_map_fail(p, -EINVAL, start, "%s has an entry already",
				       p->nics[nic].name);
	p->named[nic] = true;
	if (*p->at != '=')
		return backup_map_fail(p, -EINVAL, p->at,
				       "expected DEFAULT=BACKUP, \"auto\", \"spread\" or \"pair\"");
	do {
		start = ++p->at;
		rc = backup_map_device(p, &backup);
		if (!rc)
			rc = backup_map_add(p, start, nic, backup);
	} while (!rc && *p->at == ':');
	return rc;
}

static int backup_map_entries(struct parser *p)
{
	int rc;

	for (;;) {
		rc = backup_map_entry(p);
		if (rc || !*p->at)
			return rc;
		if (*p->at != ',')
			return backup_map_fail(p, -EINVAL, p->at,
					       "expected a comma or the end of the text");
		p->at++;
	}
}

static void backup_map_pair(const struct parser *p)
{
	uint8_t backup[BACKUP_MAP_MAX_NICS];

	p->map->automatic = true;
	backup_pair(p->nics, p->map->n_nics, backup);
	for (uint32_t i = 0; i < p->map->n_nics; i++) {
		if (backup[i] == BACKUP_NONE)
			continue;
		p->map->backups[i][0] = backup[i];
		p->map->n_backups[i] = 1;
	}
}

static void backup_map_spread(const struct parser *p)
{
	struct backup_all all[BACKUP_MAP_MAX_NICS];

	p->map->automatic = true;
	backup_pair_all(p->nics, p->map->n_nics, all);
	for (uint32_t i = 0; i < p->map->n_nics; i++) {
		p->map->spread |= all[i].n > 1;
		p->map->n_backups[i] = all[i].n;
		p->map->n_even[i] = all[i].n_even;
		memcpy(p->map->backups[i], all[i].nic, sizeof(all[i].nic));
	}
}

bool backup_is_auto(const char *text)
{
	return !text || !*text || !strcmp(text, "auto");
}

int backup_map_parse(const char *text, const struct backup_nic *nics, uint32_t n_nics,
		     struct backup_map *map, char *err, size_t errlen)
{
	const struct parser start = {
		.text = text, .at = text, .nics = nics, .map = map, .err = err, .errlen = errlen
	};
	struct parser p = start;
	int rc;

	memset(map, 0, sizeof(*map));
	map->n_nics = n_nics < BACKUP_MAP_MAX_NICS ? n_nics : BACKUP_MAP_MAX_NICS;
	if (text && !strcmp(text, "pair")) {
		backup_map_pair(&p);
		return 0;
	}
	if (backup_is_auto(text) || !strcmp(text, "spread")) {
		backup_map_spread(&p);
		return 0;
	}
	/* Twice over, so that malformed text is called that whatever devices there are. */
	p.syntax_only = true;
	rc = backup_map_entries(&p);
	if (!rc) {
		p = start;
		rc = backup_map_entries(&p);
	}
	if (rc)
		memset(map->n_backups, 0, sizeof(map->n_backups));
	return rc;
}
