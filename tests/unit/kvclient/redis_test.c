/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The Redis store against a real server: ended, stopped, restarted, locked, and a false one. */
#include "tests/lib/fork.h"
#include "tests/lib/kv_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvclient/backend.h"
#include "kvclient/kv.h"
#include "tests/unit/kvclient/common.h"

#define MAX_FD	   1024
#define STAMP	   "stampsss" /* of a value: eight bytes */
#define WAIT_TRIES 2000

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

/* A network in which there is but one port to connect from, and to; 77: not to be had here. */
static int connect_from_one_port(void)
{
	const char range[] = "40000 40001";
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd, i, rc = 77, sock;
	struct kv *kv;

	if (unshare(CLONE_NEWNET))
		return rc;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(sock, SIOCSIFFLAGS, &lo) || write(fd, range, sizeof(range) - 1) < 0)
		return rc;
	for (i = 0, rc = 0; i < 20 && !rc; i++) {
		kv = open_kv("redis://127.0.0.1:40000", KV_TEST_TIMEOUT_MS);
		rc = kv_ping(kv) != -ECONNREFUSED;
		kv_close(kv);
	}
	return rc;
}

/* Such a connection is one to oneself, now and then. */
static void nobody_listens_but_oneself(void **state)
{
	int status;
	pid_t pid = test_fork();

	if (!pid)
		_exit(connect_from_one_port());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("no network namespace can be made here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void name_is_unknown(void **state)
{
	struct kv *kv = open_kv("redis://no.such.host.invalid:6379", 500);

	assert_int_equal(kv_ping(kv), -EHOSTUNREACH);
	kv_close(kv);
}

/* After a failure calls fail at once for a while; the store is back when one comes through. */
static int put_again(struct kv *kv)
{
	int rc = -EIO;

	for (int i = 0; rc && i < WAIT_TRIES; i++) {
		rc = kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS);
		if (rc)
			usleep(5000);
	}
	return rc;
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
	assert_int_equal(put_again(kv), 0);
	/* Restarted between two calls: the broken connection is not even noticed. */
	redis_server_kill(&own);
	redis_server_start(&own, dir, own.port, NULL);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -ENOENT);
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

static const char *const acl[] = {
	"--user",  "default",	    "off",	 "--user", "job7", "on",      ">hunter2",
	"~job7/*", "resetchannels", "+getrange", "+set",   "+del", "+select", NULL,
};

static char *write_password(const char *text, mode_t mode)
{
	static char name[128];
	int fd;

	snprintf(name, sizeof(name), "%s/password", dir);
	unlink(name);
	fd = open(name, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return name;
}

static int put_with(const char *user, int port, const char *more, const char *file, const char *key,
		    const char *word)
{
	const struct kv_options options = { .timeout_ms = KV_TEST_TIMEOUT_MS,
					    .password_file = file };
	struct kv *kv;
	char url[256];
	int rc;

	snprintf(url, sizeof(url), "redis://%s127.0.0.1:%d%s", user, port, more);
	assert_int_equal(kv_open_with(url, &options, &kv, NULL, 0), 0);
	rc = kv_put(kv, key, "v", 1, KV_TEST_LEASE_MS);
	if (rc && !strstr(kv_last_error(kv), word))
		fail_msg("%s: %s", word, kv_last_error(kv));
	assert_null(strstr(kv_last_error(kv), "hunter"));
	assert_null(strstr(kv_where(kv), "hunter"));
	kv_close(kv);
	return rc;
}

/* A user of the server's, with a password in the address, in a file that it names, or in another. */
static void users_and_passwords(void **state)
{
	struct redis_server own;
	char more[160], *file;
	int port;

	redis_server_start_with(&own, dir, 0, acl);
	port = own.port;
	assert_int_equal(put_with("job7:hunter2@", port, "", NULL, "job7/k", ""), 0);
	assert_int_equal(put_with("job7:hunter3@", port, "", NULL, "job7/k", "WRONGPASS"), -EACCES);
	assert_int_equal(put_with("job8:hunter2@", port, "", NULL, "job7/k", "WRONGPASS"), -EACCES);
	assert_int_equal(put_with(":hunter2@", port, "", NULL, "job7/k", "WRONGPASS"), -EACCES);
	assert_int_equal(put_with("", port, "", NULL, "job7/k", "NOAUTH"), -EACCES);
	assert_int_equal(put_with("job7:hunter2@", port, "", NULL, "job8/k", "NOPERM"), -EACCES);
	file = write_password("hunter2\n", 0600);
	assert_int_equal(put_with("job7@", port, "", file, "job7/k", ""), 0);
	snprintf(more, sizeof(more), "?password-file=%s", file);
	assert_int_equal(put_with("job7@", port, more, "/nonexistent", "job7/k", ""), 0);
	assert_int_equal(put_with("job7:hunter2@", port, "", "/nonexistent", "job7/k", ""), 0);
	assert_int_equal(put_with("job7@", port, "", "/nonexistent", "job7/k", "/nonexistent"),
			 -ENOENT);
	file = write_password("hunter2\n", 0644);
	assert_int_equal(put_with("job7@", port, "", file, "job7/k", "chmod"), -EACCES);
	file = write_password("\n", 0600);
	assert_int_equal(put_with("job7@", port, "", file, "job7/k", "empty"), -EINVAL);
	redis_server_kill(&own);
}

static void password_is_missing(void **state)
{
	struct redis_server own;

	redis_server_start(&own, dir, 0, "hunter2");
	assert_int_equal(put_with("", own.port, "", NULL, "k", "NOAUTH"), -EACCES);
	assert_int_equal(put_with(":hunter2@", own.port, "", NULL, "k", ""), 0);
	redis_server_kill(&own);
}

/* With a password, too, it is said what it is, and not that the password is wrong. */
static void too_many_clients(void **state)
{
	static const char *const few[] = { "--requirepass", "hunter2", "--maxclients", "1", NULL };
	struct redis_server own;
	struct kv *kv;
	char url[80];

	redis_server_start_with(&own, dir, 0, few);
	snprintf(url, sizeof(url), "redis://:hunter2@127.0.0.1:%d", own.port);
	assert_int_equal(kv_open(url, KV_TEST_TIMEOUT_MS, &kv, NULL, 0), 0);
	assert_int_equal(kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS), 0);
	assert_int_equal(
		put_with(":hunter2@", own.port, "", NULL, "k", "as many clients as it takes"),
		-EAGAIN);
	kv_close(kv);
	redis_server_kill(&own);
}

static void unix_socket(void **state)
{
	struct redis_server own;
	char path[128], url[160];
	const char *const more[] = { "--unixsocket", path, "--unixsocketperm", "600", NULL };

	snprintf(path, sizeof(path), "%s/redis.sock", dir);
	snprintf(url, sizeof(url), "redis+unix://%s", path);
	redis_server_start_with(&own, dir, 0, more);
	kv_common_basics(url);
	kv_common_batch(url);
	kv_common_inherited(url);
	redis_server_kill(&own);
}

static int put_rc(struct kv *kv)
{
	return kv_put(kv, "k", "v", 1, KV_TEST_LEASE_MS);
}

/* In order; who is on a later one comes back when an earlier one is there again. */
static void several_addresses(void **state)
{
	struct redis_server first, second;
	char url[160], port[16];
	struct kv *kv;

	redis_server_start(&first, dir, 0, NULL);
	redis_server_start(&second, dir, 0, NULL);
	snprintf(url, sizeof(url), "%s,%s", first.url, second.url);
	kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	kv->home_ms = 1;
	assert_int_equal(put_rc(kv), 0);
	snprintf(port, sizeof(port), ":%d", first.port);
	assert_non_null(strstr(kv_where(kv), port));
	redis_server_kill(&first);
	assert_int_equal(put_rc(kv), 0);
	assert_null(strstr(kv_where(kv), port));
	usleep(5000);
	assert_int_equal(put_rc(kv), 0); /* looks at the first, and stays */
	assert_null(strstr(kv_where(kv), port));
	redis_server_start(&first, dir, first.port, NULL);
	usleep(5000);
	assert_int_equal(put_rc(kv), 0);
	assert_non_null(strstr(kv_where(kv), port));
	redis_server_kill(&first);
	redis_server_kill(&second);
	assert_int_equal(put_rc(kv), -ECONNREFUSED);
	kv_close(kv);
}

/* A replica takes no writes: the next address may be the master. */
static void replica_before_master(void **state)
{
	struct redis_server master, replica;
	char url[160], text[16];
	const char *const more[] = { "--replicaof", "127.0.0.1", text, NULL };
	struct kv *kv;

	redis_server_start(&master, dir, 0, NULL);
	snprintf(text, sizeof(text), "%d", master.port);
	redis_server_start_with(&replica, dir, 0, more);
	snprintf(url, sizeof(url), "%s,%s", replica.url, master.url);
	kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	assert_int_equal(put_rc(kv), -EROFS);
	assert_int_equal(put_rc(kv), 0);
	kv_close(kv);
	redis_server_kill(&replica);
	redis_server_kill(&master);
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

/* A closed connection is written to: SIGPIPE must not reach the application. */
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
	atomic_int n;
};

static void *liar_run(void *arg)
{
	struct liar *liar = arg;
	char buf[512];
	int fd;

	while ((fd = accept(liar->fd, NULL, NULL)) >= 0) {
		liar->n++;
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

static pthread_t liar_start(struct liar *liar, const char *text, char url[64])
{
	pthread_t thread;

	*liar = (struct liar){ .text = text, .fd = listen_somewhere(url) };
	assert_int_equal(pthread_create(&thread, NULL, liar_run, liar), 0);
	return thread;
}

static void liar_end(struct liar *liar, pthread_t thread)
{
	shutdown(liar->fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(liar->fd);
}

static void expect_from_liar(const char *text, int rc)
{
	struct liar liar;
	char url[64], buf[8];
	pthread_t thread = liar_start(&liar, text, url);
	struct kv *kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	size_t len;

	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), rc);
	kv_close(kv);
	liar_end(&liar, thread);
}

/* A server that knows no AUTH repeats its arguments in its error. */
static void password_comes_back(void **state)
{
	struct liar liar;
	char url[64], buf[8], with[128];
	pthread_t thread = liar_start(
		&liar, "-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n", url);
	struct kv *kv;
	size_t len;

	snprintf(with, sizeof(with), "redis://:hunter2@%s", url + strlen("redis://"));
	kv = open_kv(with, KV_TEST_TIMEOUT_MS);
	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -EACCES);
	assert_non_null(strstr(kv_last_error(kv), "ERR"));
	assert_null(strstr(kv_last_error(kv), "hunter2"));
	kv_close(kv);
	liar_end(&liar, thread);
}

/* Of a thousand calls, few contact a server that is gone; the others fail at once, alike. */
static void gone_server_is_asked_seldom(void **state)
{
	struct liar liar;
	char url[64], buf[8];
	pthread_t thread = liar_start(&liar, "", url);
	struct kv *kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	size_t len;

	for (int i = 0; i < 1000; i++) {
		assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -ECONNRESET);
		assert_non_null(strstr(kv_last_error(kv), "no answer"));
	}
	kv_close(kv);
	liar_end(&liar, thread);
	assert_in_range(liar.n, 1, 100);
}

static void false_servers(void **state)
{
	expect_from_liar("HTTP/1.1 400 Bad Request\r\n\r\n", -EPROTO);
	expect_from_liar("$-1\r\n", -ENOENT);
	expect_from_liar("$13\r\nSK1P" STAMP "x\r\n", 0);
	expect_from_liar("$1\r\nx\r\n", -EBADMSG);
	expect_from_liar("$13\r\nSK2P" STAMP "x\r\n", -EPROTONOSUPPORT);
	expect_from_liar(":7\r\n", -EPROTO);
	expect_from_liar("*2\r\n$1\r\na\r\n$1\r\nb\r\n", -EPROTO);
	expect_from_liar("$100\r\ncut", -ECONNRESET);
	expect_from_liar("$21\r\nSK1P" STAMP "long text\r\n", -EMSGSIZE);
	expect_from_liar("", -ECONNRESET);
	expect_from_liar("-LOADING in a moment\r\n", -EAGAIN);
	expect_from_liar("-OOM no memory\r\n", -ENOSPC);
	expect_from_liar("-MOVED\r\n", -EREMOTE);
	expect_from_liar("-MOVED 3999\r\n", -EPROTO);
	expect_from_liar("-MOVED 16384 127.0.0.1:1\r\n", -EPROTO);
	expect_from_liar("-MOVED 3999 127.0.0.1\r\n", -EPROTO);
	expect_from_liar("-ASK 3999 a/b:1\r\n", -EPROTO);
	expect_from_liar("-MOVED -1 127.0.0.1:1\r\n", -EPROTO);
	expect_from_liar("-CLUSTERDOWN Hash slot not served\r\n", -EAGAIN);
	expect_from_liar("-BUSY a script runs\r\n", -EAGAIN);
	expect_from_liar("-NOAUTH who are you\r\n", -EACCES);
	expect_from_liar("-\r\n", -EIO);
	expect_from_liar("+OK\r\n", -EPROTO);
	expect_from_liar("$-2\r\n", -EPROTO);
	expect_from_liar("$99999999999999999999\r\n", -EPROTO);
}

/* None of these is waited for to its end, which may never come: it would be ECONNRESET. */
static void arrays_are_not_begun_with(void **state)
{
	expect_from_liar("*-1\r\n", -EPROTO);
	expect_from_liar("*0\r\n", -EPROTO);
	expect_from_liar("*2000000\r\n:1\r\n:2\r\n:3\r\n", -EPROTO);
	expect_from_liar("*1\r\n*1\r\n*1\r\n", -EPROTO);
	expect_from_liar("%1\r\n", -EPROTO);
	expect_from_liar("~9\r\n", -EPROTO);
	expect_from_liar(">2\r\n+message\r\n", -EPROTO);
	expect_from_liar("_\r\n", -EPROTO);
	expect_from_liar("\n", -EPROTO);
}

/* A log is one line for each thing that happened, whatever the server likes to say. */
static void what_servers_say_is_one_line(void **state)
{
	struct liar liar;
	char url[64], buf[8];
	pthread_t thread = liar_start(
		&liar, "-ERR so\nshift: info: QP 0x000040 is protected\033[2J\177\r\n", url);
	struct kv *kv = open_kv(url, KV_TEST_TIMEOUT_MS);
	const char *at;
	size_t len;

	assert_int_equal(kv_get(kv, "k", buf, sizeof(buf), &len), -EIO);
	assert_non_null(strstr(kv_last_error(kv), "so?shift: info"));
	for (at = kv_last_error(kv); *at; at++)
		assert_in_range((unsigned char)*at, 0x20, 0x7e);
	kv_close(kv);
	liar_end(&liar, thread);
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
	assert_int_equal(kv_get(kv, "huge", buf, sizeof(buf), &len), -EBADMSG);
	assert_non_null(strstr(kv_last_error(kv), "huge"));
	assert_int_equal(kv_del(kv, "huge"), 0);
	close(fd);
	kv_close(kv);
}

#define CUT_OPS 4

/* Two answers, then the server is gone: the first two count, the others have the error. */
static void batch_cut_off(void **state)
{
	struct liar liar;
	char buf[CUT_OPS][8], url[64];
	struct kv_op ops[CUT_OPS] = {
		{ .type = KV_OP_PUT, .key = "k", .val = "v", .len = 1, .lease_ms = 1000 },
		{ .type = KV_OP_GET, .key = "k", .buf = buf[1], .cap = 8 },
		{ .type = KV_OP_GET, .key = "k", .buf = buf[2], .cap = 8 },
		{ .type = KV_OP_DEL, .key = "k" },
	};
	pthread_t thread = liar_start(&liar, "+OK\r\n$14\r\nSK1P" STAMP "hi\r\n$9\r\nhal", url);
	struct kv *kv = open_kv(url, KV_TEST_TIMEOUT_MS);

	assert_int_equal(kv_run(kv, ops, CUT_OPS), -ECONNRESET);
	assert_int_equal(ops[0].ret, 0);
	assert_int_equal(ops[1].ret, 0);
	assert_int_equal(ops[1].got, 2);
	assert_memory_equal(buf[1], "hi", 2);
	assert_int_equal(ops[2].ret, -ECONNRESET);
	assert_int_equal(ops[3].ret, -ECONNRESET);
	assert_non_null(strstr(kv_last_error(kv), "no answer"));
	kv_close(kv);
	liar_end(&liar, thread);
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
	memcpy(reply + n, "SK1P", 4);
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

/* A Unix socket holds some 200 KiB, whatever the machine; over loopback TCP it is megabytes. */
static int listen_unix(char url[128])
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/stream.sock", dir);
	snprintf(url, 128, "redis+unix://%s", sun.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void batch_against_the_stream(void **state)
{
	static uint8_t value[KV_VALUE_MAX], back[KV_RUN_MAX][STREAM_VALUE];
	static struct kv_op ops[KV_RUN_MAX];
	pthread_t thread;
	struct kv *kv;
	char url[128];
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
	fd = listen_unix(url);
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
		cmocka_unit_test(nobody_listens_but_oneself),
		cmocka_unit_test(name_is_unknown),
		cmocka_unit_test(killed_and_restarted),
		cmocka_unit_test(stopped_and_continued),
		cmocka_unit_test(password_is_missing),
		cmocka_unit_test(users_and_passwords),
		cmocka_unit_test(password_comes_back),
		cmocka_unit_test(unix_socket),
		cmocka_unit_test(several_addresses),
		cmocka_unit_test(replica_before_master),
		cmocka_unit_test(gone_server_is_asked_seldom),
		cmocka_unit_test(sigpipe_is_ours),
		cmocka_unit_test(no_descriptor_for_children),
		cmocka_unit_test(false_servers),
		cmocka_unit_test(arrays_are_not_begun_with),
		cmocka_unit_test(what_servers_say_is_one_line),
		cmocka_unit_test(too_many_clients),
		cmocka_unit_test(huge_value),
		cmocka_unit_test(batch_cut_off),
		cmocka_unit_test(batch_drips),
		cmocka_unit_test(batch_against_the_stream),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
