/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/lib/kv_support.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/kv.h"

#define START_TRIES 2000
#define PORT_TRIES  5
#define SAID_MAX    4096
#define SAID_TRIES  12000
#define ARGS_MAX    48

char *kv_test_dir(void)
{
	char *dir = strdup("/tmp/shift-kv-test-XXXXXX");

	assert_non_null(dir);
	assert_non_null(mkdtemp(dir));
	return dir;
}

void kv_test_dir_remove(char *dir)
{
	struct dirent *entry;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.' && unlinkat(dirfd(d), entry->d_name, 0))
			unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR);
	closedir(d);
	assert_int_equal(rmdir(dir), 0);
	free(dir);
}

int kv_test_free_port(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	close(fd);
	return ntohs(sin.sin_port);
}

static void server_exec(const char *const *argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static int redis_server_wait(const struct redis_server *s)
{
	struct kv *kv;
	int i, rc;

	assert_int_equal(kv_open(s->url, 1000, &kv, NULL, 0), 0);
	for (i = 0; i < START_TRIES; i++) {
		rc = kv_ping(kv);
		if (!rc || rc == -EACCES || waitpid(s->pid, NULL, WNOHANG) == s->pid)
			break;
		usleep(5000);
	}
	kv_close(kv);
	return rc == -EACCES ? 0 : rc;
}

/*
 * Starts argv, whose argument at port_at will be the port. Somebody may take a free port between
 * our look and the server's bind().
 */
static void server_start(struct redis_server *s, int port, const char **argv, unsigned port_at)
{
	char text[8];
	int rc = -1;

	argv[port_at] = text;
	for (int i = 0; rc && i < PORT_TRIES; i++) {
		s->port = port ? port : kv_test_free_port();
		snprintf(s->url, sizeof(s->url), "redis://127.0.0.1:%d", s->port);
		snprintf(text, sizeof(text), "%d", s->port);
		s->pid = fork();
		assert_true(s->pid >= 0);
		if (!s->pid)
			server_exec(argv);
		rc = redis_server_wait(s);
	}
	assert_int_equal(rc, 0);
}

void redis_server_start_with(struct redis_server *s, const char *dir, int port,
			     const char *const *more)
{
	const char *argv[ARGS_MAX] = {
		"redis-server", "--port", NULL,		  "--bind", "127.0.0.1", "--dir", dir,
		"--save",	"",	  "--appendonly", "no"
	};

	for (int n = 11; *more && n < ARGS_MAX - 1; more++)
		argv[n++] = *more;
	server_start(s, port, argv, 2);
}

void redis_server_start(struct redis_server *s, const char *dir, int port, const char *password)
{
	const char *const more[] = { "--requirepass", password ? password : "", NULL };

	redis_server_start_with(s, dir, port, more);
}

/* A Sentinel answers PING as a server does. */
void redis_sentinel_start(struct redis_server *s, const char *dir, const char *conf)
{
	const char *argv[] = { "redis-server", conf, "--sentinel", "--port",	NULL,
			       "--dir",	       dir,  "--bind",	   "127.0.0.1", NULL };

	server_start(s, 0, argv, 4);
}

void redis_server_say(const struct redis_server *s, const char *command, char *said, size_t cap)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t n;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(send(fd, command, strlen(command), MSG_NOSIGNAL), strlen(command));
	assert_int_equal(send(fd, "\r\n", 2, MSG_NOSIGNAL), 2);
	n = recv(fd, said, cap - 1, 0);
	assert_true(n > 0);
	said[n] = '\0';
	close(fd);
}

void redis_server_await(const struct redis_server *s, const char *command, const char *want)
{
	char said[SAID_MAX];

	for (int n = 0; n < SAID_TRIES; n++) {
		redis_server_say(s, command, said, sizeof(said));
		if (strstr(said, want))
			return;
		usleep(5000);
	}
	fail_msg("%s: %s", command, said);
}

void redis_server_kill(struct redis_server *s)
{
	kill(s->pid, SIGKILL);
	assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
	s->pid = 0;
}

void kv_test_join(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

unsigned kv_test_seed(void)
{
	const char *text = getenv("SHIFT_TEST_SEED");
	unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)time(NULL);

	printf("seed %u (replay with SHIFT_TEST_SEED=%u)\n", seed, seed);
	return seed;
}

int kv_put(struct kv *kv, const char *key, const void *val, size_t len, unsigned lease_ms)
{
	struct kv_op op = {
		.type = KV_OP_PUT,
		.key = key,
		.val = val,
		.len = len,
		.lease_ms = lease_ms,
	};

	kv_run(kv, &op, 1);
	return op.ret;
}

int kv_get(struct kv *kv, const char *key, void *buf, size_t cap, size_t *len)
{
	struct kv_op op = { .type = KV_OP_GET, .key = key, .buf = buf, .cap = cap };

	kv_run(kv, &op, 1);
	*len = op.got;
	return op.ret;
}

int kv_del(struct kv *kv, const char *key)
{
	struct kv_op op = { .type = KV_OP_DEL, .key = key };

	kv_run(kv, &op, 1);
	return op.ret;
}
