/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Addresses, keys and the wire form of records: what is accepted, and that nothing else is. */
#include "tests/unit/kv_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/kv.h"

#define FUZZ_ROUNDS 200000

static struct kv_record sample(void)
{
	struct kv_record rec = {
		.instance = 0x1122334455667788,
		.conn_id = 7,
		.nonce = 0xfeedbeef,
		.qpn = 0xabcdef,
		.remote_qpn = 0x123456,
		.default_nic = 1,
		.n_addr = 3,
		.n_backup = 2,
		.backup = { 4, 0 },
	};
	const uint8_t nics[] = { 0, 1, 4 };

	for (unsigned i = 0; i < 3; i++) {
		rec.addr[i].nic = nics[i];
		rec.addr[i].link_layer = i == 2 ? KV_LINK_INFINIBAND : KV_LINK_ETHERNET;
		rec.addr[i].gid_index_hint = (uint8_t)(3 + i);
		rec.addr[i].mtu = (uint8_t)(3 + i);
		memset(rec.addr[i].gid, 0x10 + (int)i, 16);
		rec.addr[i].lid = (uint16_t)(0xbe00 + i);
		rec.addr[i].ctrl_qpn = 0x100 + i;
		rec.addr[i].qkey = 0x80000000u + i;
		rec.addr[i].revision = 7 + i;
	}
	return rec;
}

static void record_round_trip(void **state)
{
	struct kv_record in = sample(), out;
	uint8_t buf[KV_RECORD_MAX_LEN];
	size_t len;

	assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
	assert_int_equal(len, KV_RECORD_HEAD_LEN + 3 * KV_RECORD_ADDR_LEN);
	assert_int_equal(kv_record_decode(&out, buf, len), 0);
	assert_memory_equal(&in, &out, sizeof(in));
}

/* The layout is a promise to other versions and byte orders, so some bytes are named here. */
static void record_layout(void **state)
{
	static const uint8_t head[] = {
		2,    3,    2,	  1, 148, 0, 0,	   0,	 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 7,	  0, 0,	  0, 0xef, 0xbe, 0xed, 0xfe, 0xef, 0xcd, 0xab, 0,
		0x56, 0x34, 0x12, 0, 4,	  0, 0,	   0,	 0,    0,    0,	   0,
	};
	static const uint8_t addr1[] = { 1, 2, 4, 4, 0x01, 0xbe, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0x80 };
	struct kv_record in = sample();
	uint8_t buf[KV_RECORD_MAX_LEN];
	size_t len;

	assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
	assert_memory_equal(buf, head, sizeof(head));
	assert_memory_equal(buf + 40 + 36, addr1, sizeof(addr1));
	assert_int_equal(buf[40 + 36 + 20], 0x11);
}

static void record_every_length(void **state)
{
	struct kv_record in = sample(), out;
	uint8_t buf[KV_RECORD_MAX_LEN + 8] = { 0 };
	uint8_t *exact;
	size_t len, n;

	assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
	for (n = 0; n < sizeof(buf); n++) {
		exact = malloc(n + 1);
		assert_non_null(exact);
		memcpy(exact, buf, n);
		assert_int_equal(kv_record_decode(&out, exact, n), n == len ? 0 : -EBADMSG);
		free(exact);
	}
	for (n = 0; n < len; n++)
		assert_int_equal(kv_record_encode(&in, buf, n, &len), -ENOSPC);
}

static void expect_refused(size_t offset, uint8_t value, int rc)
{
	struct kv_record in = sample(), out;
	uint8_t buf[KV_RECORD_MAX_LEN];
	size_t len;

	assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
	assert_int_not_equal(buf[offset], value);
	buf[offset] = value;
	memset(&out, 0x5a, sizeof(out));
	assert_int_equal(kv_record_decode(&out, buf, len), rc);
	assert_int_equal(out.n_addr, 0x5a);
}

static void record_refused(void **state)
{
	static const struct {
		size_t offset;
		uint8_t value;
		int rc;
	} cases[] = {
		{ 0, 0, -EPROTONOSUPPORT }, { 0, 1, -EPROTONOSUPPORT }, { 1, 0, -EBADMSG },
		{ 1, 2, -EBADMSG },	    { 1, 9, -EBADMSG },		{ 1, 255, -EBADMSG },
		{ 2, 3, -EBADMSG },	    { 2, 9, -EBADMSG },		{ 3, 7, -EBADMSG },
		{ 4, 147, -EBADMSG },	    { 5, 1, -EBADMSG },		{ 27, 1, -EBADMSG },
		{ 31, 1, -EBADMSG },	    { 32, 1, -EBADMSG },	{ 32, 0, -EBADMSG },
		{ 33, 4, -EBADMSG },	    { 33, 3, -EBADMSG },	{ 40, 1, -EBADMSG },
		{ 41, 0, -EBADMSG },	    { 41, 3, -EBADMSG },	{ 40 + 11, 1, -EBADMSG },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refused(cases[i].offset, cases[i].value, cases[i].rc);
}

static void record_encode_refuses_what_decode_would(void **state)
{
	uint8_t buf[KV_RECORD_MAX_LEN];
	struct kv_record rec = sample();
	size_t len;

	rec.n_addr = 0;
	assert_int_equal(kv_record_encode(&rec, buf, sizeof(buf), &len), -EINVAL);
	rec = sample();
	rec.n_addr = KV_MAX_NICS + 1;
	assert_int_equal(kv_record_encode(&rec, buf, sizeof(buf), &len), -EINVAL);
	rec = sample();
	rec.qpn = 1u << 24;
	assert_int_equal(kv_record_encode(&rec, buf, sizeof(buf), &len), -EINVAL);
	rec = sample();
	rec.backup[1] = rec.default_nic;
	assert_int_equal(kv_record_encode(&rec, buf, sizeof(buf), &len), -EINVAL);
}

/* Spoilt records: whatever decode accepts must encode again, and to the same meaning. */
static void record_fuzz(void **state)
{
	struct kv_record in = sample(), out, again;
	uint8_t good[KV_RECORD_MAX_LEN], buf[KV_RECORD_MAX_LEN], wire[KV_RECORD_MAX_LEN];
	unsigned seed = kv_test_seed();
	size_t len, n;

	assert_int_equal(kv_record_encode(&in, good, sizeof(good), &len), 0);
	for (int round = 0; round < FUZZ_ROUNDS; round++) {
		memcpy(buf, good, sizeof(buf));
		for (int flips = 1 + rand_r(&seed) % 4; flips > 0; flips--)
			buf[(size_t)rand_r(&seed) % len] = (uint8_t)rand_r(&seed);
		if (kv_record_decode(&out, buf, len))
			continue;
		assert_int_equal(kv_record_encode(&out, wire, sizeof(wire), &n), 0);
		assert_int_equal(kv_record_decode(&again, wire, n), 0);
		assert_memory_equal(&out, &again, sizeof(out));
	}
}

static void keys(void **state)
{
	const uint8_t gid[16] = { 0xfe, 0x80, [10] = 0xff, 0xff, 10, 1, 0, 2 };
	char key[KV_KEY_MAX + 1], prefix[KV_PREFIX_MAX], want[64];

	assert_int_equal(kv_key_gid(key, sizeof(key), "job", gid, 0x1a2), 0);
	assert_string_equal(key, "job/qp/fe800000000000000000ffff0a010002/0001a2");
	assert_int_equal(kv_key_lid(key, sizeof(key), "job", 0xfe80000000000000, 0x1f, 0xabcdef),
			 0);
	assert_string_equal(key, "job/qp/fe80000000000000/001f/abcdef");
	assert_int_equal(kv_key_gid(key, 46, "job", gid, 0x1a2), -ENOSPC);
	assert_int_equal(kv_prefix("train-7.a:b/c_d", prefix, sizeof(prefix)), 0);
	assert_string_equal(prefix, "train-7.a:b/c_d");
	assert_int_equal(kv_prefix("two words", prefix, sizeof(prefix)), -EINVAL);
	assert_int_equal(kv_prefix("new\nline", prefix, sizeof(prefix)), -EINVAL);
	assert_int_equal(kv_prefix("abc", prefix, 3), -ENOSPC);
	memset(key, 'x', sizeof(key));
	key[KV_PREFIX_MAX] = '\0';
	assert_int_equal(kv_prefix(key, prefix, sizeof(prefix)), -EINVAL);
	snprintf(want, sizeof(want), "shift/%u", (unsigned)geteuid());
	assert_int_equal(kv_prefix(NULL, prefix, sizeof(prefix)), 0);
	assert_string_equal(prefix, want);
	assert_int_equal(kv_prefix("", prefix, sizeof(prefix)), 0);
	assert_string_equal(prefix, want);
}

static void urls_accepted(void **state)
{
	struct kv_url url;

	assert_int_equal(kv_url_parse("redis://head.node-1:6379", &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_REDIS);
	assert_string_equal(url.host, "head.node-1");
	assert_string_equal(url.port, "6379");
	assert_int_equal(url.db, 0);
	assert_int_equal(kv_url_parse("redis://10.0.0.1:1/15", &url, NULL, 0), 0);
	assert_int_equal(url.db, 15);
	assert_int_equal(kv_url_parse("redis://[fe80::1%eth0]:65535/", &url, NULL, 0), 0);
	assert_string_equal(url.host, "fe80::1%eth0");
	assert_int_equal(kv_url_parse("lmdb:/var/tmp/kv", &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_LMDB);
	assert_string_equal(url.path, "/var/tmp/kv");
	assert_int_equal(kv_url_parse(NULL, &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_LMDB_DEFAULT);
	assert_int_equal(kv_url_parse("", &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_LMDB_DEFAULT);
}

static void urls_refused(void **state)
{
	static const char *const bad[] = {
		"redis",	   "redis:",
		"redis:/h:1",	   "redis://",
		"redis://h",	   "redis://:6379",
		"redis://h:",	   "redis://h:0",
		"redis://h:65536", "redis://h:6379x",
		"redis://h:-1",	   "redis://h:+1",
		"redis://h: 1",	   "redis://h:1/x",
		"redis://h:1/0/1", "redis://h:1/65536",
		"redis://u:p@h:1", "redis://[::1]",
		"redis://[::1]1",  "redis://[::1:1",
		"redis://a b:1",   "redis://::1:1",
		"REDIS://h:1",	   "rediss://h:1",
		"http://h:1",	   "lmdb",
		"lmdb:",	   "lmdb:kv",
		"lmdb:./kv",	   "lmdb:/",
		"lmdb:/dir/",	   "lmdb://",
		"/path",	   " ",
		"memcached://h:1",
	};
	char err[KV_ERR_MAX];
	struct kv *kv = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err[0] = '\0';
		assert_int_equal(kv_open(bad[i], 100, &kv, err, sizeof(err)), -EINVAL);
		assert_null(kv);
		assert_non_null(strstr(err, "redis://HOST:PORT"));
		assert_non_null(strstr(err, "lmdb:/PATH"));
		assert_null(strchr(err, '\n'));
	}
	assert_int_equal(kv_open("bogus", 100, &kv, NULL, 0), -EINVAL);
	assert_int_equal(kv_open("bogus", 100, &kv, err, 8), -EINVAL);
	assert_int_equal(strlen(err), 7);
}

static void urls_overlong(void **state)
{
	char *url = malloc(3 * PATH_MAX);
	struct kv *kv;

	assert_non_null(url);
	memset(url, 'a', 3 * PATH_MAX);
	url[3 * PATH_MAX - 1] = '\0';
	memcpy(url, "lmdb:/", 6);
	assert_int_equal(kv_open(url, 100, &kv, NULL, 0), -EINVAL);
	memcpy(url, "redis://", 8);
	assert_int_equal(kv_open(url, 100, &kv, NULL, 0), -EINVAL);
	strcpy(url + 300, ":6379");
	assert_int_equal(kv_open(url, 100, &kv, NULL, 0), -EINVAL);
	free(url);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_round_trip),
		cmocka_unit_test(record_layout),
		cmocka_unit_test(record_every_length),
		cmocka_unit_test(record_refused),
		cmocka_unit_test(record_encode_refuses_what_decode_would),
		cmocka_unit_test(record_fuzz),
		cmocka_unit_test(keys),
		cmocka_unit_test(urls_accepted),
		cmocka_unit_test(urls_refused),
		cmocka_unit_test(urls_overlong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
