/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The Redis store against a real server: ended, stopped, restarted, locked, and a false one. */
#include "tests/unit/kv_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

static void expect_from_liar(const char *text, int rc)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct liar liar = { .text = text };
	socklen_t slen = sizeof(sin);
	pthread_t thread;
	struct kv *kv;
	char url[64], buf[8];
	size_t len;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	liar.fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(liar.fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(liar.fd, 4), 0);
	assert_int_equal(getsockname(liar.fd, (struct sockaddr *)&sin, &slen), 0);
	assert_int_equal(pthread_create(&thread, NULL, liar_run, &liar), 0);
	snprintf(url, sizeof(url), "redis://127.0.0.1:%d", ntohs(sin.sin_port));
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
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
