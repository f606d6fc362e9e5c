/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Addresses, keys and the wire form of records: what is accepted, and that nothing else is. */
#include "tests/lib/kv_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/url.h"
#include "kvclient/kv.h"

#define FUZZ_ROUNDS 200000

static struct kv_record sample(void)
{
	struct kv_record rec = {
		.protocol = KV_PROTOCOL,
		.caps = 0x01020304,
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

/* The layout is a promise to other byte orders, and byte 0 to other versions, so some bytes are named here. */
static void record_layout(void **state)
{
	static const char head[] = "\x05\0\x30\x24\x9c\0\x03\x02"
				   "\x88\x77\x66\x55\x44\x33\x22\x11"
				   "\x07\0\0\0\xef\xbe\xed\xfe\xef\xcd\xab\0\x56\x34\x12\0"
				   "\x01\0\0\0\x04\x03\x02\x01"
				   "\x04\0\0\0\0\0\0\0";
	static const uint8_t addr1[] = { 1, 2, 4, 4, 0x01, 0xbe, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0x80 };
	struct kv_record in = sample();
	uint8_t buf[KV_RECORD_MAX_LEN];
	size_t len;

	assert_int_equal(sizeof(head) - 1, KV_RECORD_HEAD_LEN);
	assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
	assert_memory_equal(buf, head, KV_RECORD_HEAD_LEN);
	assert_memory_equal(buf + 48 + 36, addr1, sizeof(addr1));
	assert_int_equal(buf[48 + 36 + 20], 0x11);
}

/* It says so, and which: nothing else of it is read. */
static void record_of_another_version(void **state)
{
	struct kv_record in = sample();
	uint8_t buf[KV_RECORD_MAX_LEN];
	size_t len;

	assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
	for (unsigned version = 0; version <= UINT8_MAX; version++) {
		struct kv_record out = { 0 }, want = { .protocol = (uint8_t)version };

		if (version == KV_PROTOCOL)
			continue;
		buf[0] = (uint8_t)version;
		assert_int_equal(kv_record_decode(&out, buf, len), -EPROTONOSUPPORT);
		assert_memory_equal(&out, &want, sizeof(out));
		assert_int_equal(kv_record_decode(&out, buf, 1), -EPROTONOSUPPORT);
	}
}

/* Lengths are those of this version. */
static void record_of_other_lengths(void **state)
{
	struct kv_record in = sample(), out;
	uint8_t buf[KV_VALUE_MAX] = { 0 };
	size_t len;

	for (int at = 2; at <= 3; at++) { /* a longer head, longer addresses */
		size_t more = at == 2 ? 4 : 3 * 4;

		assert_int_equal(kv_record_encode(&in, buf, sizeof(buf), &len), 0);
		buf[at] = (uint8_t)(buf[at] + 4);
		buf[4] = (uint8_t)(len + more);
		assert_int_equal(kv_record_decode(&out, buf, len + more), -EBADMSG);
	}
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

static void expect_job(const char *variable, const char *value, const char *name)
{
	char buf[KV_PREFIX_MAX], prefix[KV_PREFIX_MAX];

	assert_int_equal(setenv(variable, value, 1), 0);
	if (name) {
		assert_string_equal(kv_job_default(buf, sizeof(buf)), variable);
		assert_string_equal(buf, name);
		assert_int_equal(kv_prefix(buf, prefix, sizeof(prefix)), 0);
	} else {
		assert_null(kv_job_default(buf, sizeof(buf)));
	}
}

static void job_names(void **state)
{
	static const char *const all[] = { "SLURM_HET_JOB_ID", "SLURM_JOB_ID",
					   "PBS_JOBID",	       "LSB_JOBID",
					   "PMIX_NAMESPACE",   "TORCHELASTIC_RUN_ID" };
	char overlong[300];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		unsetenv(all[i]);
	memset(overlong, '1', sizeof(overlong));
	overlong[sizeof(overlong) - 1] = '\0';
	expect_job("PMIX_NAMESPACE", "prterun-head-4711@1", "pmix-prterun-head-4711");
	expect_job("PMIX_NAMESPACE", "@1", NULL);
	expect_job("TORCHELASTIC_RUN_ID", "none", NULL);
	expect_job("TORCHELASTIC_RUN_ID", "", NULL);
	expect_job("TORCHELASTIC_RUN_ID", "run 7/\n", "torch-run_7__");
	expect_job("LSB_JOBID", "5", "lsf-5");
	expect_job("PBS_JOBID", "12[3].head", "pbs-12_3_.head");
	expect_job("SLURM_JOB_ID", "1234", "slurm-1234");
	expect_job("SLURM_HET_JOB_ID", "1233", "slurm-1233");
	assert_int_equal(setenv("SLURM_HET_JOB_ID", overlong, 1), 0);
	expect_job("SLURM_JOB_ID", "1234", "slurm-1234");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		unsetenv(all[i]);
}

static const struct kv_address *only(const struct kv_url *url)
{
	assert_int_equal(url->scheme, KV_SCHEME_REDIS);
	assert_int_equal(url->n_addresses, 1);
	return &url->address[0];
}

static void urls_accepted(void **state)
{
	struct kv_url url;

	assert_int_equal(kv_url_parse("redis://head.node-1:6380", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->place.host, "head.node-1");
	assert_string_equal(only(&url)->place.port, "6380");
	assert_int_equal(only(&url)->db, 0);
	assert_int_equal(kv_url_parse("redis://head", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->place.port, "6379");
	assert_int_equal(kv_url_parse("redis://10.0.0.1:1/15", &url, NULL, 0), 0);
	assert_int_equal(only(&url)->db, 15);
	assert_int_equal(kv_url_parse("redis://[fe80::1%eth0]:65535/", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->place.host, "fe80::1%eth0");
	assert_int_equal(kv_url_parse("redis://[::1]", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->place.host, "::1");
	assert_int_equal(kv_url_parse("lmdb:/var/tmp/kv", &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_LMDB);
	assert_string_equal(url.path, "/var/tmp/kv");
	assert_int_equal(kv_url_parse(NULL, &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_LMDB_DEFAULT);
	assert_int_equal(kv_url_parse("", &url, NULL, 0), 0);
	assert_int_equal(url.scheme, KV_SCHEME_LMDB_DEFAULT);
}

static void urls_with_users(void **state)
{
	struct kv_url url;

	assert_int_equal(kv_url_parse("redis://job7:s%3acret%40@h:1/2", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->user, "job7");
	assert_string_equal(only(&url)->password, "s:cret@");
	assert_int_equal(only(&url)->db, 2);
	assert_int_equal(kv_url_parse("redis://:pw@h", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->user, "");
	assert_string_equal(only(&url)->password, "pw");
	assert_int_equal(kv_url_parse("redis://u@h?password-file=/etc/pw&db=3", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->user, "u");
	assert_string_equal(only(&url)->password, "");
	assert_string_equal(only(&url)->password_file, "/etc/pw");
	assert_int_equal(only(&url)->db, 3);
	assert_int_equal(kv_url_parse("redis+unix://u:p@/run/r%2c1.sock?db=4", &url, NULL, 0), 0);
	assert_int_equal(only(&url)->transport, KV_TRANSPORT_UNIX);
	assert_string_equal(only(&url)->path, "/run/r,1.sock");
	assert_string_equal(only(&url)->password, "p");
	assert_int_equal(only(&url)->db, 4);
	assert_int_equal(kv_url_parse("redis://a:1,redis://u:p@b/7,redis+unix:///s", &url, NULL, 0),
			 0);
	assert_int_equal(url.n_addresses, 3);
	assert_string_equal(url.address[1].place.host, "b");
	assert_int_equal(url.address[1].db, 7);
	assert_string_equal(url.address[2].path, "/s");
}

static void urls_with_tls(void **state)
{
	const char *text = "rediss://u:hunter2@h:1?ca=/ca.pem&cert=/c.pem&key=/k.pem";
	struct kv_url url;

	assert_int_equal(kv_url_parse(text, &url, NULL, 0), 0);
	assert_int_equal(only(&url)->transport, KV_TRANSPORT_TLS);
	assert_string_equal(only(&url)->ca, "/ca.pem");
	assert_string_equal(only(&url)->cert, "/c.pem");
	assert_string_equal(only(&url)->key, "/k.pem");
}

static void urls_of_sentinels(void **state)
{
	const char *two = "redis+sentinel://u:p@s1/prod/3?sentinel-password-file=/s,"
			  "rediss+sentinel://[::1]:5000/prod_2.a";
	struct kv_url url;

	assert_int_equal(kv_url_parse(two, &url, NULL, 0), 0);
	assert_int_equal(url.n_addresses, 2);
	assert_string_equal(url.address[0].place.host, "s1");
	assert_string_equal(url.address[0].place.port, "26379");
	assert_string_equal(url.address[0].master, "prod");
	assert_string_equal(url.address[0].user, "u");
	assert_string_equal(url.address[0].sentinel_password_file, "/s");
	assert_int_equal(url.address[0].db, 3);
	assert_string_equal(url.address[1].place.host, "::1");
	assert_string_equal(url.address[1].place.port, "5000");
	assert_string_equal(url.address[1].master, "prod_2.a");
	assert_int_equal(url.address[1].transport, KV_TRANSPORT_TLS);
	assert_int_equal(kv_url_parse("redis://h/1", &url, NULL, 0), 0);
	assert_string_equal(only(&url)->master, "");
}

/* What a server says where another one is. */
static void places(void **state)
{
	struct kv_place place;

	assert_true(kv_place_set(&place, "10.0.0.7", "6379"));
	assert_string_equal(place.host, "10.0.0.7");
	assert_string_equal(place.port, "6379");
	assert_true(kv_place_set(&place, "fe80::1%eth0", "65535"));
	assert_true(kv_place_set(&place, "redis-2.example.org", "1"));
	assert_false(kv_place_set(&place, "", "1"));
	assert_false(kv_place_set(&place, "a b", "1"));
	assert_false(kv_place_set(&place, "a/b", "1"));
	assert_false(kv_place_set(&place, "a", "0"));
	assert_false(kv_place_set(&place, "a", "65536"));
	assert_false(kv_place_set(&place, "a", "1@2"));
	assert_false(kv_place_set(&place, "a", ""));
}

static void urls_refused(void **state)
{
	static const char *const bad[] = {
		"redis",
		"redis:",
		"redis:/h:1",
		"redis://",
		"redis://:6379",
		"redis://h:",
		"redis://h:0",
		"redis://h:65536",
		"redis://h:6379x",
		"redis://h:-1",
		"redis://h:+1",
		"redis://h: 1",
		"redis://h:1/x",
		"redis://h:1/0/1",
		"redis://h:1/65536",
		"redis://[::1]1",
		"redis://[::1:1",
		"redis://a b:1",
		"redis://::1:1",
		"redis+sentinel://h",
		"redis+sentinel://h/",
		"redis+sentinel://h//1",
		"redis+sentinel://h/a b",
		"redis+sentinel://h/m/x",
		"redis+sentinel:///m",
		"redis://h?sentinel-password-file=/p",
		"REDIS://h:1",
		"http://h:1",
		"lmdb",
		"lmdb:",
		"lmdb:kv",
		"lmdb:./kv",
		"lmdb:/",
		"lmdb:/dir/",
		"lmdb://",
		"/path",
		" ",
		"memcached://h:1",
		"redis://h:1,",
		",redis://h:1",
		"redis://h:1,lmdb:/x",
		"redis://h:1,http://h",
		"redis://u:%zz@h",
		"redis://u:%00@h",
		"redis://u:%@h",
		"redis://u:%4@h",
		"redis://u:@h",
		"redis://u:a b@h",
		"redis://h?",
		"redis://h?db",
		"redis://h?db=x",
		"redis://h?what=1",
		"redis://h?password-file=pw",
		"redis://h?password-file=",
		"redis://h?ca=/ca",
		"redis://h?db=1&",
		"redis+unix://",
		"redis+unix://h/s",
		"redis+unix:///%00",
		"redis+unix://u@",
		("redis://a,redis://a,redis://a,redis://a,redis://a,redis://a,redis://a,redis://a,"
		 "redis://a"),
	};
	char err[KV_ERR_MAX];
	struct kv *kv = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err[0] = '\0';
		if (kv_open(bad[i], 100, &kv, err, sizeof(err)) != -EINVAL)
			fail_msg("%s is accepted", bad[i]);
		assert_null(kv);
		assert_non_null(strstr(err, "redis://[USER:PASSWORD@]HOST[:PORT]"));
		assert_non_null(strstr(err, "lmdb:/PATH"));
		assert_null(strchr(err, '\n'));
	}
	assert_int_equal(kv_open("bogus", 100, &kv, NULL, 0), -EINVAL);
	assert_int_equal(kv_open("bogus", 100, &kv, err, 8), -EINVAL);
	assert_int_equal(strlen(err), 7);
}

/* However wrong the address is, what could be a password in it is not repeated. */
static void urls_keep_passwords(void **state)
{
	static const char *const bad[] = {
		"redis://u:hunter2@h:x",
		"redis://u:hunter2@",
		"redis://u:hunter2",
		"redis://:hunter2",
		"redis:/u:hunter2@h",
		"redis://u:hun/hunter2@h",
		"redis://u:x,hunter2@h",
		"redis://u:x?hunter2@h",
		"redis://a:1,redis://u:hunter2@h?db=x",
		"rediss://u:hunter2@h",
		"rediss://u:hunter2",
		"redis+unix://u:hunter2@x",
		"http://u:hunter2@h",
		"redis://u:hunter2%zz@h",
		"redis://h?hunter2=1@",
	};
	char err[KV_ERR_MAX];
	struct kv *kv = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!kv_open(bad[i], 100, &kv, err, sizeof(err))) {
			assert_null(strstr(kv_where(kv), "hunter2"));
			kv_close(kv);
			continue;
		}
		if (strstr(err, "hunter2"))
			fail_msg("%s", err);
	}
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
	memset(url, 'a', 4000);
	memcpy(url, "redis://", 8);
	strcpy(url + 8 + KV_PASSWORD_MAX + 1, "@h:1");
	url[9] = ':';
	assert_int_equal(kv_open(url, 100, &kv, NULL, 0), 0);
	kv_close(kv);
	memset(url, 'a', 4000);
	memcpy(url, "redis://u:", 10);
	strcpy(url + 10 + KV_PASSWORD_MAX, "@h:1");
	assert_int_equal(kv_open(url, 100, &kv, NULL, 0), -EINVAL);
	free(url);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_round_trip),
		cmocka_unit_test(record_layout),
		cmocka_unit_test(record_every_length),
		cmocka_unit_test(record_of_another_version),
		cmocka_unit_test(record_of_other_lengths),
		cmocka_unit_test(record_encode_refuses_what_decode_would),
		cmocka_unit_test(record_fuzz),
		cmocka_unit_test(keys),
		cmocka_unit_test(job_names),
		cmocka_unit_test(urls_accepted),
		cmocka_unit_test(urls_with_users),
		cmocka_unit_test(urls_with_tls),
		cmocka_unit_test(urls_of_sentinels),
		cmocka_unit_test(places),
		cmocka_unit_test(urls_refused),
		cmocka_unit_test(urls_keep_passwords),
		cmocka_unit_test(urls_overlong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
