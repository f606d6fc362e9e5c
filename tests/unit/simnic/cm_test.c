/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The connection manager in one process: commands as of librdmacm, both ends on one NIC. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "simnic/cm/cm.h"
#include "simnic/cm/file.h"
#include "simnic/device/device.h"
#include "tests/lib/fork.h"

#define OWN	"10.0.0.1"
#define PORT	7000
#define THREADS 4
#define ROUNDS	25
#define PAIRS	40 /* of processes that want the same port */

static struct sn_fabric *fabric;
static char fabric_name[32];

/* Of Linux 6.18 and rdma-core 62, which the installed headers may lack. */
#define RDMA_USER_CM_CMD_WRITE_CM_EVENT 24
struct write_event {
	uint32_t id, reserved, event, status;
	union {
		struct rdma_ucm_conn_param conn;
		uint64_t arg;
	};
};

/* ---- commands ------------------------------------------------------------------------------- */

static ssize_t command(int fd, uint32_t number, const void *cmd, uint16_t size, uint16_t out)
{
	char buf[1024];
	struct rdma_ucm_cmd_hdr hdr = { .cmd = number, .in = size, .out = out };
	ssize_t ret;

	memcpy(buf, &hdr, sizeof(hdr));
	memcpy(buf + sizeof(hdr), cmd, size);
	ret = sn_cm_write(fd, buf, sizeof(hdr) + size);
	return ret == (ssize_t)(sizeof(hdr) + size) ? 0 : ret;
}

#define COMMAND(fd, number, cmd)                                                                   \
	((int)command(fd, RDMA_USER_CM_CMD_##number, &(cmd), sizeof(cmd), 0))
#define COMMAND_OUT(fd, number, cmd, resp)                                                         \
	((cmd).response = (uintptr_t)(void *)&(resp),                                              \
	 (int)command(fd, RDMA_USER_CM_CMD_##number, &(cmd), sizeof(cmd), sizeof(resp)))

static int file_open(void)
{
	int fd = sn_cm_open(fabric, 0);

	assert_true(fd >= 0);
	return fd;
}

static void file_close(int fd)
{
	sn_cm_closed(fd);
	close(fd);
}

static uint32_t id_make(int fd, uint64_t uid)
{
	struct rdma_ucm_create_id cmd = { .uid = uid, .ps = RDMA_PS_TCP };
	struct rdma_ucm_create_id_resp resp;

	assert_int_equal(COMMAND_OUT(fd, CREATE_ID, cmd, resp), 0);
	return resp.id;
}

static uint32_t id_destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id cmd = { .id = id };
	struct rdma_ucm_destroy_id_resp resp;

	assert_int_equal(COMMAND_OUT(fd, DESTROY_ID, cmd, resp), 0);
	return resp.events_reported;
}

static void address(void *to, const char *ip, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, ip, &in.sin_addr);
	memcpy(to, &in, sizeof(in));
}

static int bind_to(int fd, uint32_t id, const char *ip, uint16_t port)
{
	struct rdma_ucm_bind cmd = { .id = id, .addr_size = sizeof(struct sockaddr_in) };

	address(&cmd.addr, ip, port);
	return COMMAND(fd, BIND, cmd);
}

static uint32_t listener(int fd, uint64_t uid, uint16_t port, uint32_t backlog)
{
	struct rdma_ucm_listen cmd = { .id = id_make(fd, uid), .backlog = backlog };

	assert_int_equal(bind_to(fd, cmd.id, OWN, port), 0);
	assert_int_equal(COMMAND(fd, LISTEN, cmd), 0);
	return cmd.id;
}

static int resolve(int fd, uint32_t id, uint16_t port)
{
	struct rdma_ucm_resolve_addr cmd = { .id = id,
					     .timeout_ms = 1000,
					     .dst_size = sizeof(struct sockaddr_in) };

	address(&cmd.dst_addr, OWN, port);
	return COMMAND(fd, RESOLVE_ADDR, cmd);
}

static int event_get(int fd, struct rdma_ucm_event_resp *resp)
{
	struct rdma_ucm_get_event cmd;

	memset(resp, 0, sizeof(*resp));
	return COMMAND_OUT(fd, GET_EVENT, cmd, *resp);
}

static struct rdma_ucm_event_resp event_is(int fd, uint32_t event, uint32_t id, int32_t status)
{
	struct rdma_ucm_event_resp resp;

	assert_int_equal(event_get(fd, &resp), 0);
	assert_int_equal(resp.event, event);
	assert_int_equal(resp.id, id);
	assert_int_equal((int32_t)resp.status, status);
	return resp;
}

static uint32_t request_get(int fd, uint64_t listener_uid)
{
	struct rdma_ucm_event_resp resp;

	assert_int_equal(event_get(fd, &resp), 0);
	assert_int_equal(resp.event, SN_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(resp.uid, listener_uid);
	return resp.id;
}

static uint32_t resolved(int fd, uint64_t uid, uint16_t port)
{
	struct rdma_ucm_resolve_route cmd = { .id = id_make(fd, uid), .timeout_ms = 1000 };

	assert_int_equal(resolve(fd, cmd.id, port), 0);
	event_is(fd, SN_CM_EVENT_ADDR_RESOLVED, cmd.id, 0);
	assert_int_equal(COMMAND(fd, RESOLVE_ROUTE, cmd), 0);
	event_is(fd, SN_CM_EVENT_ROUTE_RESOLVED, cmd.id, 0);
	return cmd.id;
}

static int connect_with(int fd, uint32_t id, uint32_t qpn)
{
	struct rdma_ucm_connect cmd = { .id = id,
					.conn_param = { .valid = 1,
							.qp_num = qpn,
							.responder_resources = 3,
							.initiator_depth = 5,
							.retry_count = 9,
							.rnr_retry_count = 6,
							.private_data_len = 4 } };

	memcpy(cmd.conn_param.private_data, "dear", 4);
	return COMMAND(fd, CONNECT, cmd);
}

static int accept_with(int fd, uint32_t id, uint64_t uid, uint32_t qpn)
{
	struct rdma_ucm_accept cmd = { .id = id,
				       .uid = uid,
				       .conn_param = { .valid = 1,
						       .qp_num = qpn,
						       .responder_resources = 2,
						       .initiator_depth = 1,
						       .rnr_retry_count = 5 } };

	return COMMAND(fd, ACCEPT, cmd);
}

static int ready(int fd, uint32_t id)
{
	struct rdma_ucm_accept cmd = { .id = id };

	return COMMAND(fd, ACCEPT, cmd);
}

static int disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect cmd = { .id = id };

	return COMMAND(fd, DISCONNECT, cmd);
}

static struct ib_uverbs_qp_attr attr_of(int fd, uint32_t id, uint32_t state)
{
	struct rdma_ucm_init_qp_attr cmd = { .id = id, .qp_state = state };
	struct ib_uverbs_qp_attr attr;

	assert_int_equal(COMMAND_OUT(fd, INIT_QP_ATTR, cmd, attr), 0);
	return attr;
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Connects two ids of one file; the listener stays. */
static void connect_pair(int fd, uint16_t port, uint32_t *client, uint32_t *server)
{
	*client = resolved(fd, 20, port);
	assert_int_equal(connect_with(fd, *client, 0x111), 0);
	*server = request_get(fd, 10);
	assert_int_equal(accept_with(fd, *server, 30, 0x222), 0);
	event_is(fd, SN_CM_EVENT_CONNECT_RESPONSE, *client, 0);
	assert_int_equal(ready(fd, *client), 0);
	event_is(fd, SN_CM_EVENT_ESTABLISHED, *server, 0);
}

static void both_ends_have_what_the_other_said(void **state)
{
	struct ib_uverbs_qp_attr at_client, at_server;
	uint32_t client, server;
	int fd = file_open();

	listener(fd, 10, PORT, 0);
	connect_pair(fd, PORT, &client, &server);
	at_client = attr_of(fd, client, IBV_QPS_RTR);
	at_server = attr_of(fd, server, IBV_QPS_RTS);
	assert_int_equal(at_client.dest_qp_num, 0x222);
	assert_int_equal(at_client.rq_psn, at_server.sq_psn);
	assert_int_equal(at_client.max_dest_rd_atomic, 1); /* what the server may read */
	assert_int_equal(at_server.max_rd_atomic, 1);
	assert_int_equal(at_server.retry_cnt, 7); /* 9 is more than there is */
	assert_int_equal(at_server.rnr_retry, 6);
	at_client = attr_of(fd, client, IBV_QPS_RTS);
	at_server = attr_of(fd, server, IBV_QPS_RTR);
	assert_int_equal(at_server.dest_qp_num, 0x111);
	assert_int_equal(at_server.rq_psn, at_client.sq_psn);
	assert_int_equal(at_client.max_rd_atomic, 2);
	assert_int_equal(at_client.rnr_retry, 5);
	file_close(fd);
}

static void an_end_is_heard_at_both(void **state)
{
	uint32_t client, server;
	int fd = file_open();

	listener(fd, 10, PORT, 0);
	connect_pair(fd, PORT, &client, &server);
	assert_int_equal(disconnect(fd, client), 0);
	event_is(fd, SN_CM_EVENT_DISCONNECTED, server, 0);
	assert_int_equal(disconnect(fd, server), 0);
	event_is(fd, SN_CM_EVENT_DISCONNECTED, client, 0);
	assert_int_equal(id_destroy(fd, server), 2); /* ESTABLISHED, DISCONNECTED */
	event_is(fd, SN_CM_EVENT_TIMEWAIT_EXIT, client, 0);
	assert_int_equal(id_destroy(fd, client), 5);
	file_close(fd);
}

static void who_destroys_says_goodbye(void **state)
{
	int fd = file_open(), other = file_open();
	struct rdma_ucm_event_resp resp;
	uint32_t client, server;

	listener(other, 10, PORT, 0);
	client = resolved(fd, 20, PORT);
	assert_int_equal(connect_with(fd, client, 1), 0);
	server = request_get(other, 10);
	assert_int_equal(accept_with(other, server, 30, 2), 0);
	event_is(fd, SN_CM_EVENT_CONNECT_RESPONSE, client, 0);
	assert_int_equal(ready(fd, client), 0);
	event_is(other, SN_CM_EVENT_ESTABLISHED, server, 0);
	client = resolved(fd, 21, PORT);
	assert_int_equal(connect_with(fd, client, 3), 0);
	file_close(other); /* with a connection, a request that nobody has read, and a listener */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(event_get(fd, &resp), 0);
		assert_true(resp.event == SN_CM_EVENT_DISCONNECTED ||
			    (resp.event == SN_CM_EVENT_REJECTED && resp.id == client));
	}
	file_close(fd);
}

static void a_full_backlog_drops(void **state)
{
	int fd = file_open(), other = file_open();
	struct pollfd poll_fd = { .fd = other, .events = POLLIN };
	uint32_t first, second;

	atomic_store(&fabric->nic[0][0].slow.retry_percent, 1); /* a REQ each 46 ms */
	listener(other, 10, PORT, 1);
	first = resolved(fd, 20, PORT);
	second = resolved(fd, 21, PORT);
	assert_int_equal(connect_with(fd, first, 1), 0);
	assert_int_equal(poll(&poll_fd, 1, 10000), 1);
	assert_int_equal(connect_with(fd, second, 2), 0);
	request_get(other, 10); /* makes room: the second one comes again */
	request_get(other, 10);
	atomic_store(&fabric->nic[0][0].slow.retry_percent, 100);
	file_close(other);
	file_close(fd);
}

static void events_go_with_an_id(void **state)
{
	int fd = file_open(), other = file_open();
	struct rdma_ucm_migrate_id cmd = { .fd = (uint32_t)fd };
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_event_resp event;
	uint32_t id = id_make(fd, 20);

	fcntl(fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(resolve(fd, id, PORT), 0);
	cmd.id = id;
	assert_int_equal(COMMAND_OUT(other, MIGRATE_ID, cmd, resp), 0);
	assert_int_equal(resp.events_reported, 0);
	assert_int_equal(event_get(fd, &event), -EAGAIN);
	event_is(other, SN_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_int_equal(bind_to(fd, id, OWN, 0), -EINVAL);
	cmd.fd = (uint32_t)STDIN_FILENO;
	assert_int_equal(COMMAND_OUT(other, MIGRATE_ID, cmd, resp), -EINVAL);
	file_close(other);
	file_close(fd);
}

/* Tells an event of its own, as librdmacm does where it has asked DNS (rdma_resolve_addrinfo). */
static void a_program_tells_itself_an_event(void **state)
{
	int fd = file_open(), other = file_open();
	struct write_event cmd = { .id = id_make(fd, 20),
				   .event = SN_CM_EVENT_INTERNAL,
				   .status = 3,
				   .arg = 0x1234567890ULL };
	struct rdma_ucm_event_resp resp;
	uint64_t arg;

	assert_int_equal(COMMAND(fd, WRITE_CM_EVENT, cmd), 0);
	resp = event_is(fd, SN_CM_EVENT_INTERNAL, cmd.id, 3);
	memcpy(&arg, &resp.param, sizeof(arg));
	assert_int_equal(arg, 0x1234567890ULL);
	assert_int_equal(resp.uid, 20);
	assert_int_equal(COMMAND(other, WRITE_CM_EVENT, cmd), -EINVAL);
	cmd.event = SN_CM_EVENT_ESTABLISHED; /* those are the kernel's */
	assert_int_equal(COMMAND(fd, WRITE_CM_EVENT, cmd), -EINVAL);
	cmd.event = SN_CM_EVENT_USER;
	assert_int_equal(COMMAND(fd, WRITE_CM_EVENT, cmd), 0);
	assert_int_equal(id_destroy(fd, cmd.id), 1); /* the other one was not read */
	file_close(other);
	file_close(fd);
}

static void what_is_no_command_is_refused(void **state)
{
	struct rdma_ucm_resolve_route route = { .id = 4711 };
	struct rdma_ucm_create_id create = { .ps = 1 };
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_bind bound = { .addr_size = 3 };
	struct rdma_ucm_cmd_hdr hdr = { .cmd = RDMA_USER_CM_CMD_LISTEN, .in = 8 };
	int fd = file_open();

	assert_int_equal(sn_cm_write(fd, &hdr, 4), -EINVAL);
	assert_int_equal(sn_cm_write(fd, &hdr, sizeof(hdr)), -EINVAL); /* says it has more */
	assert_int_equal(command(fd, 99, &route, 8, 0), -EINVAL);
	assert_int_equal(command(fd, RDMA_USER_CM_CMD_GET_OPTION, &route, 8, 0), -ENOSYS);
	assert_int_equal(COMMAND(fd, RESOLVE_ROUTE, route), -ENOENT);
	assert_int_equal(COMMAND(fd, CREATE_ID, create), -ENOSPC);
	assert_int_equal(COMMAND_OUT(fd, CREATE_ID, create, resp), -EINVAL);
	bound.id = id_make(fd, 20);
	assert_int_equal(COMMAND(fd, BIND, bound), -EINVAL);
	assert_int_equal(connect_with(fd, bound.id, 1), -EINVAL);
	assert_int_equal(accept_with(fd, bound.id, 1, 1), -EINVAL);
	assert_int_equal(disconnect(fd, bound.id), -EINVAL);
	assert_int_equal(sn_cm_write(STDIN_FILENO, &hdr, sizeof(hdr)), -EBADF);
	file_close(fd);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *server_thread(void *arg)
{
	uint16_t port = (uint16_t)(uintptr_t)arg;
	int fd = file_open();
	uint32_t id;

	listener(fd, 10, port, 0);
	for (int i = 0; i < ROUNDS; i++) {
		id = request_get(fd, 10);
		assert_int_equal(accept_with(fd, id, 30, 2), 0);
		event_is(fd, SN_CM_EVENT_ESTABLISHED, id, 0);
		event_is(fd, SN_CM_EVENT_DISCONNECTED, id, 0);
		assert_int_equal(disconnect(fd, id), 0);
		id_destroy(fd, id);
	}
	file_close(fd);
	return NULL;
}

/* Asks again while nobody listens yet. */
static uint32_t connect_patiently(int fd, uint16_t port)
{
	struct rdma_ucm_event_resp resp;
	uint32_t id;

	for (;;) {
		id = resolved(fd, 20, port);
		assert_int_equal(connect_with(fd, id, 1), 0);
		assert_int_equal(event_get(fd, &resp), 0);
		if (resp.event == SN_CM_EVENT_CONNECT_RESPONSE)
			return id;
		assert_int_equal(resp.event, SN_CM_EVENT_REJECTED);
		id_destroy(fd, id);
	}
}

static void *client_thread(void *arg)
{
	uint16_t port = (uint16_t)(uintptr_t)arg;
	int fd = file_open();
	uint32_t id;

	for (int i = 0; i < ROUNDS; i++) {
		id = connect_patiently(fd, port);
		assert_int_equal(ready(fd, id), 0);
		assert_int_equal(disconnect(fd, id), 0);
		event_is(fd, SN_CM_EVENT_DISCONNECTED, id, 0);
		id_destroy(fd, id);
	}
	file_close(fd);
	return NULL;
}

static void threads_connect_at_once(void **state)
{
	pthread_t threads[2 * THREADS];

	for (uintptr_t i = 0; i < THREADS; i++) {
		void *port = (void *)(PORT + i);

		pthread_create(&threads[2 * i], NULL, server_thread, port);
		pthread_create(&threads[2 * i + 1], NULL, client_thread, port);
	}
	for (int i = 0; i < 2 * THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void *waiting_thread(void *arg)
{
	struct rdma_ucm_event_resp resp;
	int fd = *(int *)arg;

	return (void *)(uintptr_t)(event_get(fd, &resp) || resp.event);
}

static void a_thread_that_waits_is_woken(void **state)
{
	int fd = file_open(), twin = dup(fd);
	uint32_t id = id_make(fd, 20);
	pthread_t thread;
	void *wrong;

	sn_cm_duplicated(fd, twin);
	pthread_create(&thread, NULL, waiting_thread, &fd);
	assert_int_equal(resolve(twin, id, PORT), 0); /* ADDR_RESOLVED is 0 */
	pthread_join(thread, &wrong);
	assert_null(wrong);
	file_close(fd);
	id_destroy(twin, id); /* the file lives as long as a number of it */
	file_close(twin);
}

static void *cancelled_thread(void *arg)
{
	struct rdma_ucm_event_resp resp;

	event_get(*(int *)arg, &resp);
	return NULL;
}

static void a_thread_that_waits_can_be_cancelled(void **state)
{
	int fd = file_open(), other = file_open();
	struct rdma_ucm_event_resp resp;
	pthread_t thread;
	uint32_t id;

	listener(other, 10, PORT, 0);
	pthread_create(&thread, NULL, cancelled_thread, &other);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	file_close(other); /* with the listener: the file does not wait for the thread */
	id = resolved(fd, 20, PORT);
	assert_int_equal(connect_with(fd, id, 1), 0);
	assert_int_equal(event_get(fd, &resp), 0);
	assert_int_equal(resp.event, SN_CM_EVENT_REJECTED);
	file_close(fd);
}

static void a_number_that_became_another_file_is_not_ours(void **state)
{
	int fd = file_open(), null = open("/dev/null", O_WRONLY);

	assert_true(sn_cm_is(fd));
	assert_int_equal(dup2(null, fd), fd);
	assert_false(sn_cm_is(fd));
	close(fd);
	close(null);
}

/* ---- processes ------------------------------------------------------------------------------ */

/* Binds the port as soon as the pipe ends; holds it until the test has counted. */
static pid_t racer(const int start[2], int done, uint16_t port)
{
	struct sn_cm_want want = { .host = 0,
				   .ps = RDMA_PS_TCP,
				   .any = true,
				   .addr = { .family = AF_INET, .port = port } };
	pid_t pid = test_fork();
	char byte;
	int slot;

	if (pid)
		return pid;
	close(start[1]);
	slot = sn_proc_attach(fabric, 0);
	want.proc = (uint32_t)slot;
	while (read(start[0], &byte, 1) < 0)
		;
	byte = slot >= 0 && sn_cm_bind(fabric, &want) >= 0;
	if (write(done, &byte, 1) != 1)
		_exit(2);
	pause();
	_exit(0);
}

static uint32_t own_slot(void)
{
	uint32_t slot = 0;

	while (fabric->proc[slot].pid != getpid())
		slot++;
	return slot;
}

static int bind_any(uint16_t port)
{
	struct sn_cm_want want = { .proc = own_slot(),
				   .ps = RDMA_PS_TCP,
				   .any = true,
				   .addr = { .family = AF_INET, .port = port } };

	return sn_cm_bind(fabric, &want);
}

/* As a binding of another process is while that looks for those in its way. */
static void only_claimed(int slot)
{
	atomic_store(&fabric->cm.slot[slot].state, SN_CM_BIND_CLAIMED);
}

static void an_earlier_claim_wins(void **state)
{
	int earlier = bind_any(PORT);

	assert_true(earlier >= 0);
	only_claimed(earlier);
	assert_int_equal(bind_any(PORT), -EADDRNOTAVAIL);
	sn_cm_bind_release(fabric, (uint32_t)earlier);
}

static void *gives_way(void *arg)
{
	const struct timespec nap = { .tv_nsec = 3000000 };

	nanosleep(&nap, NULL);
	sn_cm_bind_release(fabric, *(uint32_t *)arg);
	return NULL;
}

static void a_later_claim_gives_way(void **state)
{
	int first = bind_any(PORT + 1), later = bind_any(PORT), slot;
	pthread_t thread;

	assert_true(first >= 0 && later > first);
	only_claimed(later);
	sn_cm_bind_release(fabric, (uint32_t)first);
	pthread_create(&thread, NULL, gives_way, &later);
	slot = bind_any(PORT);
	pthread_join(thread, NULL);
	assert_int_equal(slot, first);
	sn_cm_bind_release(fabric, (uint32_t)slot);
}

static void a_later_claim_that_stays_wins(void **state)
{
	int first = bind_any(PORT + 1), later = bind_any(PORT);

	assert_true(first >= 0 && later > first);
	only_claimed(later);
	sn_cm_bind_release(fabric, (uint32_t)first);
	assert_int_equal(bind_any(PORT), -EADDRNOTAVAIL);
	sn_cm_bind_release(fabric, (uint32_t)later);
}

static void a_port_is_for_one_of_two_processes(void **state)
{
	for (uint16_t round = 0; round < PAIRS; round++) {
		int start[2], done[2], winners = 0;
		pid_t pid[2];
		char byte;

		assert_false(pipe(start) || pipe(done));
		for (int i = 0; i < 2; i++)
			pid[i] = racer(start, done[1], (uint16_t)(20000 + round % 2));
		close(start[1]);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(read(done[0], &byte, 1), 1);
			winners += byte;
		}
		assert_int_equal(winners, 1);
		for (int i = 0; i < 2; i++) {
			kill(pid[i], SIGKILL);
			waitpid(pid[i], NULL, 0);
		}
		close(start[0]);
		close(done[0]);
		close(done[1]);
	}
}

static int start(void **state)
{
	const struct sn_fabric_config config = {
		.n_hosts = 1, .n_nics = 1, .link_layer = SN_LINK_ETH, .seed = 1
	};

	snprintf(fabric_name, sizeof(fabric_name), "unit-cm-%d", getpid());
	if (sn_fabric_create(fabric_name, &config) || sn_fabric_attach(fabric_name, &fabric))
		return -1;
	return sn_device_start(fabric, 0);
}

static int stop(void **state)
{
	return sn_fabric_destroy(fabric_name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_have_what_the_other_said),
		cmocka_unit_test(an_end_is_heard_at_both),
		cmocka_unit_test(who_destroys_says_goodbye),
		cmocka_unit_test(a_full_backlog_drops),
		cmocka_unit_test(events_go_with_an_id),
		cmocka_unit_test(a_program_tells_itself_an_event),
		cmocka_unit_test(what_is_no_command_is_refused),
		cmocka_unit_test(threads_connect_at_once),
		cmocka_unit_test(a_thread_that_waits_is_woken),
		cmocka_unit_test(a_thread_that_waits_can_be_cancelled),
		cmocka_unit_test(a_number_that_became_another_file_is_not_ours),
		cmocka_unit_test(an_earlier_claim_wins),
		cmocka_unit_test(a_later_claim_gives_way),
		cmocka_unit_test(a_later_claim_that_stays_wins),
		cmocka_unit_test(a_port_is_for_one_of_two_processes),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
