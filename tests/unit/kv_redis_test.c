/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The Redis store against a real server: ended, stopped, restarted, locked, and a false one. */
#include "tests/unit/kv_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvclient/kv.h"
#include "tests/unit/kv_common_test.h"

#define MAX_FD 1024

static struct redis_server server;
static char *dir;

static struct kv *open_kv(const char *url, unsigned timeout_ms)
{
	struct kv *kv;

	assert_int_equal(kv_open(url, timeout_ms, &kv, NULL, 0), 0);
	return kv;
}

static void basics(void **state)
{
	kv_common_basics(server.url);
	kv_common_arguments(server.url);
}

static void batch(void **state)
{
	kv_common_batch(server.url);
}

static void lease(void **state)
{
	kv_common_lease(server.url);
}

static void inherited(void **state)
{
	kv_common_inherited(server.url);
}

static void processes(void **state)
{
	kv_common_processes(server.url);
	kv_common_threads(server.url);
}

static void databases_are_apart(void **state)
{
	struct kv *zero = open_kv(server.url, KV_TEST_TIMEOUT_MS), *one, *none;
	char url[80], buf[8];
	size_t len;

	snprintf(url, sizeof(url), "%s/1", server.url);
	one = open_kv(url, KV_TEST_TIMEOUT_MS);
	snprintf(url, sizeof(url), "%s/60000", server.url);
	none = open_kv(url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_put(zero, "db", "zero", 4, KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_get(one, "db", buf, sizeof(buf), &len), -ENOENT);
	assert_int_equal(kv_put(one, "db", "one", 3, KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_get(zero, "db", buf, sizeof(buf), &len), 0);
	assert_memory_equal(buf, "zero", 4);
	/* Never the wrong database: one that is not there fails each time. */
	assert_int_equal(kv_put(none, "db", "x", 1, KV_TEST_LEASE_MS), -EIO);
	assert_int_equal(kv_put(none, "db", "x", 1, KV_TEST_LEASE_MS), -EIO);
	kv_close(none);
	kv_close(one);
	kv_close(zero);
}

static void nobody_listens(void **state)
{
	char url[64], buf[8];
	struct kv *kv;
	size_t len;

	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", kv_test_free_port());
	kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_ping(kv), -ECONNREFUSED);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), -ECONNREFUSED);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -ECONNREFUSED);
	assert_int_equal(kv_del(kv, "k"), -ECONNREFUSED);
	assert_non_null(strstr(kv_last_error(kv), "redis at 127.0.0.1:"));
	kv_close(kv);
}

static void name_is_unknown(void **state)
{
	struct kv *kv = open_kv("redis://no.such.host.invalid:6379", 500);

	assert_int_equal(kv_ping(kv), -EHOSTUNREACH);
	kv_close(kv);
}

static void killed_and_restarted(void **state)
{
	struct redis_server own;
	struct kv *kv;
	char buf[8];
	size_t len;

	redis_server_start(&own, dir, 0, NULL);
	kv = open_kv(own.url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	redis_server_kill(&own);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), -ECONNREFUSED);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -ECONNREFUSED);
	redis_server_start(&own, dir, own.port, NULL);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -ENOENT);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	/* Restarted between two calls: the broken connection is not even noticed. */
	redis_server_kill(&own);
	redis_server_start(&own, dir, own.port, NULL);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	redis_server_kill(&own);
	kv_close(kv);
}

static void stopped_and_continued(void **state)
{
	struct kv *kv = open_kv(server.url, 1000);
	struct kv *fresh = open_kv(server.url, 1000);
	char buf[8];
	size_t len;

	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	kill(server.pid, SIGSTOP);
	assert_int_equal(kv_put(kv, "k", "w", 1, KV_TEST_LEASE_MS), -ETIMEDOUT);
	assert_int_equal(kv_ping(fresh), -ETIMEDOUT);
	kill(server.pid, SIGCONT);
	kv_close(fresh);
	kv_close(kv);
	kv = open_kv(server.url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_put(kv, "k", "x", 1, KV_TEST_LEASE_MS), 0);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), 0);
	assert_memory_equal(buf, "x", 1);
	kv_close(kv);
}

static void password_is_missing(void **state)
{
	struct redis_server own;
	struct kv *kv;

	redis_server_start(&own, dir, 0, "secret");
	kv = open_kv(own.url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), -EACCES);
	assert_non_null(strstr(kv_last_error(kv), "NOAUTH"));
	kv_close(kv);
	redis_server_kill(&own);
}

static int shut_all_sockets(void)
{
	struct stat st;
	int n = 0;

	for (int fd = 0; fd < MAX_FD; fd++)
		if (!fstat(fd, &st) && S_ISSOCK(st.st_mode))
			n += !shutdown(fd, SHUT_WR);
	return n;
}

static volatile sig_atomic_t sigpipes;

static void count_sigpipe(int sig)
{
	sigpipes++;
}

/* hiredis writes into a closed connection: SIGPIPE must not reach the application. */
static void sigpipe_is_ours(void **state)
{
	struct kv *kv = open_kv(server.url, KV_TEST_TIMEOUT_MS);
	sigset_t before, after;

	signal(SIGPIPE, count_sigpipe);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	assert_int_equal(shut_all_sockets(), 1);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_int_equal(sigismember(&before, SIGPIPE), sigismember(&after, SIGPIPE));
	assert_int_equal(sigpipes, 0);
	signal(SIGPIPE, SIG_DFL);
	kv_close(kv);
}

static void no_descriptor_for_children(void **state)
{
	struct kv *kv = open_kv(server.url, KV_TEST_TIMEOUT_MS);
	struct stat st;
	int n = 0;

	assert_int_equal(kv_ping(kv), 0);
	for (int fd = 0; fd < MAX_FD; fd++) {
		if (fstat(fd, &st) || !S_ISSOCK(st.st_mode))
			continue;
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		n++;
	}
	assert_int_equal(n, 1);
	kv_close(kv);
}

/* A server that answers every connection with the same bytes. */
struct liar {
	int fd;
	const char *text;
};

static void *liar_run(void *arg)
{
	struct liar *liar = arg;
	char buf[512];
	int fd;

	while ((fd = accept(liar->fd, NULL, NULL)) >= 0) {
		if (recv(fd, buf, sizeof(buf), 0) > 0)
			send(fd, liar->text, strlen(liar->text), MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

/* A listening socket on a free port, whose connections have as small buffers as there are. */
static int listen_somewhere(char url[64])
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd, bytes = 1;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	snprintf(url, 64, "redis://127.0.0.1:%d", ntohs(sin.sin_port));
	return fd;
}

static void expect_from_liar(const char *text, int rc)
{
	struct liar liar = { .text = text };
	pthread_t thread;
	struct kv *kv;
	char url[64], buf[8];
	size_t len;

	liar.fd = listen_somewhere(url);
	assert_int_equal(pthread_create(&thread, NULL, liar_run, &liar), 0);
	kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), rc);
	kv_close(kv);
	shutdown(liar.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(liar.fd);
}

static void false_servers(void **state)
{
	expect_from_liar("HTTP/1.1 400 Bad Request\r\n\r\n", -EPROTO);
	expect_from_liar("$-1\r\n", -ENOENT);
	expect_from_liar("$1\r\nx\r\n", 0);
	expect_from_liar(":7\r\n", -EPROTO);
	expect_from_liar("*2\r\n$1\r\na\r\n$1\r\nb\r\n", -EPROTO);
	expect_from_liar("$100\r\ncut", -ECONNRESET);
	expect_from_liar("$9\r\nlong text\r\n", -EMSGSIZE);
	expect_from_liar("", -ECONNRESET);
	expect_from_liar("-LOADING in a moment\r\n", -EAGAIN);
	expect_from_liar("-OOM no memory\r\n", -ENOSPC);
}

/* Another client's half a gigabyte under our key must not come over: 16 MiB would show it. */
static void huge_value(void **state)
{
	const char *set = "SETRANGE huge 16777216 x\r\n";
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)server.port) };
	struct kv *kv = open_kv(server.url, KV_TEST_TIMEOUT_MS);
	char buf[KV_VALUE_MAX], reply[32];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t len;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(send(fd, set, strlen(set), 0), strlen(set));
	assert_true(recv(fd, reply, sizeof(reply), 0) > 0);
	assert_int_equal(kv_get(kv, "huge", buf, sizeof(buf), &len), -EMSGSIZE);
	assert_int_equal(len, KV_VALUE_MAX + 1);
	assert_int_equal(kv_del(kv, "huge"), 0);
	close(fd);
	kv_close(kv);
}

#define CUT_OPS 4

/* Two answers, then the server is gone: the first two count, the others have the error. */
static void batch_cut_off(void **state)
{
	struct liar liar = { .text = "+OK\r\n$2\r\nhi\r\n$9\r\nhal" };
	char buf[CUT_OPS][8], url[64];
	struct kv_op ops[CUT_OPS] = {
		{ .type = KV_OP_PUT, .key = "k", .val = "v", .len = 1, .lease_ms = 1000 },
		{ .type = KV_OP_GET, .key = "k", .buf = buf[1], .cap = 8 },
		{ .type = KV_OP_GET, .key = "k", .buf = buf[2], .cap = 8 },
		{ .type = KV_OP_DEL, .key = "k" },
	};
	pthread_t thread;
	struct kv *kv;

	liar.fd = listen_somewhere(url);
	assert_int_equal(pthread_create(&thread, NULL, liar_run, &liar), 0);
	kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_run(kv, ops, CUT_OPS), -ECONNRESET);
	assert_int_equal(ops[0].ret, 0);
	assert_int_equal(ops[1].ret, 0);
	assert_int_equal(ops[1].got, 2);
	assert_memory_equal(buf[1], "hi", 2);
	assert_int_equal(ops[2].ret, -ECONNRESET);
	assert_int_equal(ops[3].ret, -ECONNRESET);
	assert_non_null(strstr(kv_last_error(kv), "no answer"));
	kv_close(kv);
	shutdown(liar.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(liar.fd);
}

struct drip {
	int fd;
	atomic_bool stop;
};

/* A byte every few milliseconds, for ever: no single read would ever time out. */
static void *drip_run(void *arg)
{
	struct drip *drip = arg;
	int fd = accept(drip->fd, NULL, NULL);

	send(fd, "$2000\r\n", 7, MSG_NOSIGNAL);
	while (!drip->stop && send(fd, "x", 1, MSG_NOSIGNAL) == 1)
		usleep(5000);
	close(fd);
	return NULL;
}

static void batch_drips(void **state)
{
	struct drip drip = { 0 };
	char url[64], buf[8];
	pthread_t thread;
	struct kv *kv;
	size_t len;

	drip.fd = listen_somewhere(url);
	assert_int_equal(pthread_create(&thread, NULL, drip_run, &drip), 0);
	kv = open_kv(url, 100);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -ETIMEDOUT);
	drip.stop = true;
	pthread_join(thread, NULL);
	kv_close(kv);
	close(drip.fd);
}

#define STREAM_VALUE 2000

/* Answers everything before it reads anything: who only writes at first waits for it for ever. */
static void *stream_run(void *arg)
{
	char reply[STREAM_VALUE + 32], buf[4096];
	int fd = accept(*(int *)arg, NULL, NULL);
	size_t n;

	n = (size_t)snprintf(reply, sizeof(reply), "$%d\r\n", STREAM_VALUE);
	memset(reply + n, 'r', STREAM_VALUE);
	memcpy(reply + n + STREAM_VALUE, "\r\n", 2);
	for (uint32_t i = 0; i < KV_RUN_MAX / 2; i++)
		if (send(fd, reply, n + STREAM_VALUE + 2, MSG_NOSIGNAL) < 0)
			break;
	for (uint32_t i = 0; i < KV_RUN_MAX / 2; i++)
		send(fd, "+OK\r\n", 5, MSG_NOSIGNAL);
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
	return NULL;
}

static void batch_against_the_stream(void **state)
{
	static uint8_t value[KV_VALUE_MAX], back[KV_RUN_MAX][STREAM_VALUE];
	static struct kv_op ops[KV_RUN_MAX];
	pthread_t thread;
	struct kv *kv;
	char url[64];
	int fd;

	for (uint32_t i = 0; i < KV_RUN_MAX; i++) {
		ops[i] = (struct kv_op){ .type = KV_OP_PUT,
					 .key = "k",
					 .val = value,
					 .len = sizeof(value),
					 .lease_ms = 1000,
					 .buf = back[i],
					 .cap = STREAM_VALUE };
		if (i < KV_RUN_MAX / 2)
			ops[i].type = KV_OP_GET;
	}
	fd = listen_somewhere(url);
	assert_int_equal(pthread_create(&thread, NULL, stream_run, &fd), 0);
	kv = open_kv(url, 4 * KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_run(kv, ops, KV_RUN_MAX), 0);
	for (uint32_t i = 0; i < KV_RUN_MAX; i++)
		assert_int_equal(ops[i].ret, 0);
	kv_close(kv);
	pthread_join(thread, NULL);
	close(fd);
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
		cmocka_unit_test(basics),
		cmocka_unit_test(batch),
		cmocka_unit_test(lease),
		cmocka_unit_test(inherited),
		cmocka_unit_test(processes),
		cmocka_unit_test(databases_are_apart),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(name_is_unknown),
		cmocka_unit_test(killed_and_restarted),
		cmocka_unit_test(stopped_and_continued),
		cmocka_unit_test(password_is_missing),
		cmocka_unit_test(sigpipe_is_ours),
		cmocka_unit_test(no_descriptor_for_children),
		cmocka_unit_test(false_servers),
		cmocka_unit_test(huge_value),
		cmocka_unit_test(batch_cut_off),
		cmocka_unit_test(batch_drips),
		cmocka_unit_test(batch_against_the_stream),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
