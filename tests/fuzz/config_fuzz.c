/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Any text as configuration: SHIFT_KV, SHIFT_JOB, SHIFT_BACKUP and the numbers of the environment.
 * Reading must end, stay inside the text and give only values in range; a sentence about an address
 * must not repeat its password. The first byte says what the text is for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvclient/kv.h"
#include "kvclient/url.h"
#include "shiftlib/backup/map.h"
#include "shiftlib/base/config.h"

#define TEXT_MAX 6000u
#define MARK	 "h7Q"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static bool ends(const char *text, size_t cap)
{
	return memchr(text, '\0', cap);
}

static void check_url(const char *text)
{
	static struct kv_url url;
	char err[KV_ERR_MAX] = "";

	if (kv_url_parse(text, &url, err, sizeof(err))) {
		CHECK(*err && ends(err, sizeof(err)));
		/* A password stands before an @; whoever writes one there sees none of it again. */
		CHECK(!strchr(text, '@') || !strstr(err, MARK));
		return;
	}
	CHECK(url.n_addresses <= KV_ADDRESSES_MAX && ends(url.path, sizeof(url.path)));
	for (unsigned i = 0; i < url.n_addresses; i++) {
		const struct kv_address *a = &url.address[i];

		CHECK(ends(a->place.host, sizeof(a->place.host)));
		CHECK(ends(a->place.port, sizeof(a->place.port)));
		CHECK(ends(a->master, sizeof(a->master)));
		CHECK(ends(a->user, sizeof(a->user)) && ends(a->password, sizeof(a->password)));
		CHECK(ends(a->path, sizeof(a->path)) && a->db <= 65535);
		CHECK((a->transport == KV_TRANSPORT_UNIX) == (*a->path == '/'));
	}
}

static void check_job(const char *text)
{
	char name[KV_PREFIX_MAX], prefix[KV_PREFIX_MAX], key[KV_KEY_MAX + 1];
	static const uint8_t gid[16];

	if (!kv_prefix(text, prefix, sizeof(prefix)))
		CHECK(!kv_key_gid(key, sizeof(key), prefix, gid, 0xffffff) && !strchr(key, '*'));
	setenv("PMIX_NAMESPACE", text, 1);
	setenv("TORCHELASTIC_RUN_ID", text, 1);
	if (kv_job_default(name, sizeof(name)))
		CHECK(ends(name, sizeof(name)) && !kv_prefix(name, prefix, sizeof(prefix)));
	unsetenv("TORCHELASTIC_RUN_ID");
	if (kv_job_default(name, sizeof(name)))
		CHECK(!kv_prefix(name, prefix, sizeof(prefix)));
	unsetenv("PMIX_NAMESPACE");
}

static void check_backup(const char *text)
{
	static const struct backup_nic nics[] = {
		{ .name = "mlx5_0", .link_layer = 2 }, { .name = "mlx5_1", .link_layer = 2 },
		{ .name = "mlx5_2", .link_layer = 1 }, { .name = "a" },
		{ .name = "b", .link_layer = 1 },
	};
	char err[BACKUP_MAP_ERR_MAX] = "";
	struct backup_map map;
	int rc = backup_map_parse(text, nics, 5, &map, err, sizeof(err));

	CHECK(map.n_nics <= BACKUP_MAP_MAX_NICS);
	for (unsigned i = 0; i < map.n_nics; i++) {
		CHECK(map.n_backups[i] <= BACKUP_MAP_MAX_BACKUPS && (!rc || !map.n_backups[i]));
		for (unsigned k = 0; k < map.n_backups[i]; k++)
			CHECK(map.backups[i][k] < 5 && map.backups[i][k] != i);
	}
}

/* One text for all numbers: each says what is wrong with it, or takes it within its limits. */
static void check_numbers(const char *text)
{
	static const char *const names[] = {
		"SHIFT_KV_TIMEOUT_MS", "SHIFT_LEASE_MS",    "SHIFT_WATCH_MS", "SHIFT_HEARTBEAT",
		"SHIFT_HOLDDOWN_MS",   "SHIFT_DEADLINE_MS", "SHIFT_LAZY",     "SHIFT_RETRY_STRETCH",
	};
	struct sh_config config;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		setenv(names[i], text, 1);
	sh_config_read(&config);
	CHECK(config.kv_timeout_ms >= 10 && config.kv_timeout_ms <= 60000);
	CHECK(config.lease_ms >= 1000 && config.lease_ms <= 3600000);
	CHECK(config.path.hold_max_ns >= config.path.hold_min_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	char text[TEXT_MAX];
	size_t n = length ? length - 1 : 0;

	if (!length || n >= sizeof(text))
		return 0;
	memcpy(text, data + 1, n);
	text[n] = '\0';
	setenv("SHIFT_LOG_FILE", "/dev/null", 0);
	switch (data[0] % 4) {
	case 0: check_url(text); break;
	case 1: check_job(text); break;
	case 2: check_backup(text); break;
	default: check_numbers(text); break;
	}
	return 0;
}
