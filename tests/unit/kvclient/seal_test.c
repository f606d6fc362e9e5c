/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Values with the job's secret: what an attacker who can write to the store, and has no secret, can
 * make a reader believe. The attacker is a plain client of a real server.
 */
#include "tests/lib/kv_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvclient/seen.h"
#include "kvclient/kv.h"

#define SECRET "0123456789abcdef0123456789abcdef\n"

static struct redis_server server;
static char *dir;

static const char *secret_file(const char *name, const char *text, mode_t mode)
{
	static char path[4][160];
	static unsigned n;
	char *at = path[n++ % 4];
	int fd;

	snprintf(at, sizeof(path[0]), "%s/%s", dir, name);
	unlink(at);
	fd = open(at, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return at;
}

static struct kv *open_with(const char *secret)
{
	const struct kv_options options = { .timeout_ms = KV_TEST_TIMEOUT_MS,
					    .secret_file = secret };
	struct kv *kv;

	assert_int_equal(kv_open_with(server.url, &options, &kv, NULL, 0), 0);
	return kv;
}

static int put(struct kv *kv, const char *key, const char *text)
{
	return kv_put(kv, key, text, strlen(text), KV_TEST_LEASE_MS);
}

static int get_rc(struct kv *kv, const char *key)
{
	char buf[64];
	size_t len;
	int rc = kv_get(kv, key, buf, sizeof(buf), &len);

	/* The one line that is said of it names the key. */
	if (rc && kv_refusal(rc))
		assert_non_null(strstr(kv_last_error(kv), key));
	return rc;
}

/* The attacker: one inline command, and whatever the server answers. */
static void attack(const char *command)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)server.port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char reply[256];
	ssize_t n;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(send(fd, command, strlen(command), 0), strlen(command));
	assert_int_equal(send(fd, "\r\n", 2, 0), 2);
	n = recv(fd, reply, sizeof(reply), 0);
	assert_true(n > 0 && reply[0] != '-');
	close(fd);
}

static void same_secret(void **state)
{
	const char *file = secret_file("secret", SECRET, 0600);
	struct kv *a = open_with(file), *b = open_with(file);
	char buf[8];
	size_t len;

	assert_int_equal(put(a, "k", "value"), 0);
	assert_int_equal(kv_get(b, "k", buf, sizeof(buf), &len), 0);
	assert_int_equal(len, 5);
	assert_memory_equal(buf, "value", 5);
	assert_int_equal(kv_get(b, "k", buf, 4, &len), -EMSGSIZE);
	assert_int_equal(len, 5);
	kv_close(a);
	kv_close(b);
}

static void other_secrets(void **state)
{
	struct kv *with = open_with(secret_file("secret", SECRET, 0600));
	struct kv *other = open_with(secret_file("other", "1" SECRET, 0400));
	struct kv *without = open_with(NULL);

	assert_int_equal(put(with, "k", "v"), 0);
	assert_int_equal(get_rc(with, "k"), 0);
	assert_int_equal(get_rc(other, "k"), -EKEYREJECTED);
	assert_int_equal(get_rc(without, "k"), -EKEYREVOKED);
	assert_int_equal(put(without, "k", "v"), 0);
	assert_int_equal(get_rc(without, "k"), 0);
	assert_int_equal(get_rc(with, "k"), -ENOKEY);
	kv_close(without);
	kv_close(other);
	kv_close(with);
}

static void moved(void **state)
{
	struct kv *kv = open_with(secret_file("secret", SECRET, 0600));

	assert_int_equal(put(kv, "job/qp/1", "v"), 0);
	attack("COPY job/qp/1 job/qp/2 REPLACE");
	assert_int_equal(get_rc(kv, "job/qp/2"), -EKEYREJECTED);
	assert_int_equal(get_rc(kv, "job/qp/1"), 0);
	kv_close(kv);
}

static void replayed(void **state)
{
	const char *file = secret_file("secret", SECRET, 0600);
	struct kv *writer = open_with(file), *reader = open_with(file), *late = open_with(file);

	assert_int_equal(put(writer, "k", "old"), 0);
	assert_int_equal(get_rc(reader, "k"), 0);
	attack("COPY k kept REPLACE");
	kv_close(writer);
	writer = open_with(file); /* its successor, a new process, is newer, too */
	assert_int_equal(put(writer, "k", "new"), 0);
	assert_int_equal(get_rc(reader, "k"), 0);
	attack("COPY kept k REPLACE");
	assert_int_equal(get_rc(reader, "k"), -ESTALE);
	/* Who has never seen the new one cannot know. */
	assert_int_equal(get_rc(late, "k"), 0);
	assert_int_equal(put(writer, "k", "newer"), 0);
	assert_int_equal(get_rc(reader, "k"), 0);
	kv_close(late);
	kv_close(reader);
	kv_close(writer);
}

/* Every byte of a value counts, and so does its end. */
static void spoilt(void **state)
{
	struct kv *kv = open_with(secret_file("secret", SECRET, 0600));
	size_t n = 12 + 5 + KV_MAC_LEN;
	char command[128];

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(put(kv, "k", "value"), 0);
		snprintf(command, sizeof(command), "SETRANGE k %zu ~", i);
		attack(command);
		if (get_rc(kv, "k"))
			continue;
		/* One byte of a MAC in 256 was that one; it is not the other. */
		snprintf(command, sizeof(command), "SETRANGE k %zu !", i);
		attack(command);
		if (!get_rc(kv, "k"))
			fail_msg("byte %zu does not count", i);
	}
	assert_int_equal(put(kv, "k", "value"), 0);
	attack("APPEND k x");
	assert_int_equal(get_rc(kv, "k"), -EKEYREJECTED);
	for (size_t i = 1; i < n; i++) {
		assert_int_equal(put(kv, "k", "value"), 0);
		snprintf(command, sizeof(command),
			 "EVAL \"return redis.call('SET','k',"
			 "string.sub(redis.call('GET','k'),1,%zu))\" 0",
			 i);
		attack(command);
		assert_non_null(kv_refusal(get_rc(kv, "k")));
	}
	attack("DEL k");
	attack("LPUSH k v");
	assert_int_equal(get_rc(kv, "k"), -EBADMSG);
	attack("DEL k");
	kv_close(kv);
}

static void expect_secret_refused(const char *file, int rc, const char *word)
{
	const struct kv_options options = { .timeout_ms = 100, .secret_file = file };
	char err[KV_ERR_MAX] = "";
	struct kv *kv = NULL;

	assert_int_equal(kv_open_with(server.url, &options, &kv, err, sizeof(err)), rc);
	assert_null(kv);
	if (!strstr(err, word) || !strstr(err, file))
		fail_msg("%s", err);
	assert_null(strstr(err, "0123456789"));
}

static void secret_files(void **state)
{
	const char *file;

	expect_secret_refused("/nonexistent/secret", -ENOENT, "No such file");
	expect_secret_refused("/dev/null", -EACCES, "regular");
	expect_secret_refused(dir, -EACCES, "regular");
	expect_secret_refused(secret_file("s", SECRET, 0644), -EACCES, "chmod it to 600");
	expect_secret_refused(secret_file("s", SECRET, 0660), -EACCES, "chmod it to 600");
	if (geteuid())
		expect_secret_refused(secret_file("s", SECRET, 0640), -EACCES, "chmod it to 600");
	expect_secret_refused(secret_file("s", SECRET, 0602), -EACCES, "chmod it to 600");
	expect_secret_refused(secret_file("s", "0123456789abcde\n", 0600), -EINVAL, "16 bytes");
	expect_secret_refused(secret_file("s", "\n" SECRET, 0600), -EINVAL, "empty");
	if (geteuid()) {
		print_message("skipped: only root can give a file away\n");
		return;
	}
	/* Root's, for programs of a group. */
	kv_close(open_with(secret_file("s", SECRET, 0640)));
	file = secret_file("s", SECRET, 0600);
	assert_int_equal(chown(file, 65534, 65534), 0);
	expect_secret_refused(file, -EACCES, "65534");
}

#define MANY 100000u

static void seen_keys(void **state)
{
	struct kv_seen *seen = NULL;
	unsigned remembered = 0;
	char key[32];

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "job/qp/%08x", i);
		assert_true(kv_seen_newest(&seen, key, 1000 + i));
	}
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "job/qp/%08x", i);
		assert_true(kv_seen_newest(&seen, key, 1000 + i));
		remembered += !kv_seen_newest(&seen, key, 999 + i);
	}
	/* The memory is bounded: 49,152 keys, more than a process has peers. */
	assert_int_equal(remembered, 49152);
	free(seen);
}

static int setup(void **state)
{
	dir = kv_test_dir();
	redis_server_start(&server, dir, 0, NULL);
	return 0;
}

static int teardown(void **state)
{
	redis_server_kill(&server);
	kv_test_dir_remove(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_secret), cmocka_unit_test(other_secrets),
		cmocka_unit_test(moved),       cmocka_unit_test(replayed),
		cmocka_unit_test(spoilt),      cmocka_unit_test(secret_files),
		cmocka_unit_test(seen_keys),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
