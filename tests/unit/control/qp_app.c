/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of a control channel, on the NIC of the simulated host that it runs on. Driven by
 * control_test.py:
 *
 *	control_qp_app echo NIC		sends each datagram back, until its input ends
 *	control_qp_app drive NIC N SEED	sends N random ones, checks what comes back
 *	control_qp_app dies NIC		is its own peer; expects its NIC to die
 *
 * Prints its address, reads its peer's. Exit 0: all was as it should be.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shiftlib/control/control_qp.h"
#include "tests/lib/random.h"

#define WINDOW	    32
#define WIDE_AT	    100 /* datagrams until the end that echoes has room for more */
#define PATIENCE_S  60
#define OVER	    UINT64_MAX
#define BURST	    (4 * SH_CONTROL_SENDS) /* datagrams of one thread */
#define BURSTS	    3
#define BURST_TRIES 50

#undef ibv_query_port /* the function, not the wrapper */
static void thread_inside(void)
{
}

static const struct shift_real real = {
	.thread_inside = thread_inside,
	.get_device_name = ibv_get_device_name,
	.query_port = ibv_query_port,
	.query_gid = ibv_query_gid,
	.query_pkey = ibv_query_pkey,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = (ibv_reg_mr),
	.dereg_mr = ibv_dereg_mr,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.destroy_cq = ibv_destroy_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_qp = ibv_create_qp,
	.modify_qp = ibv_modify_qp,
	.destroy_qp = ibv_destroy_qp,
	.create_ah = ibv_create_ah,
	.destroy_ah = ibv_destroy_ah,
};

struct peer {
	struct ibv_context *context;
	struct sh_control *control;
	struct sh_path *path;
	uint64_t seed, sent, received, wanted;
	pthread_t widens;
	atomic_int burst_sent;
	bool over;
};

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	REQUIRE(list);
	for (i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	REQUIRE(context);
	return context;
}

static void address_print(const struct sh_address *address)
{
	const uint8_t *byte = (const uint8_t *)address;
	size_t i;

	for (i = 0; i < sizeof(*address); i++)
		printf("%02x", byte[i]);
	printf("\n");
	fflush(stdout);
}

static void address_scan(struct sh_address *address)
{
	uint8_t *byte = (uint8_t *)address;
	unsigned int value;
	size_t i;

	for (i = 0; i < sizeof(*address); i++) {
		REQUIRE(scanf("%2x", &value) == 1);
		byte[i] = (uint8_t)value;
	}
}

static void peer_open(struct peer *peer, const char *nic)
{
	struct sh_address own, again, other;

	peer->context = device_open(nic);
	REQUIRE(!sh_control_open(&real, peer->context, 1, &peer->control));
	sh_control_address(peer->control, &own);
	REQUIRE(own.active && own.qpn && own.qkey && !(own.qkey >> 31));
	REQUIRE(own.link_layer == IBV_LINK_LAYER_ETHERNET || own.lid);
	REQUIRE(!sh_control_refresh(peer->control, NULL, &again));
	REQUIRE(!memcmp(&own, &again, sizeof(own)));
	address_print(&own);
	address_scan(&other);
	REQUIRE(!sh_control_path_open(peer->control, &other, &peer->path));
	other.link_layer ^= IBV_LINK_LAYER_ETHERNET ^ IBV_LINK_LAYER_INFINIBAND;
	REQUIRE(sh_control_path_open(peer->control, &other, &peer->path) == -EPROTOTYPE);
}

static void peer_close(struct peer *peer)
{
	sh_control_path_close(peer->path);
	sh_control_close(peer->control);
	ibv_close_device(peer->context);
}

/* Sleeps until the channel says that there is something: a lost wake-up would hang here. */
static int peer_wait(struct peer *peer, void (*receive)(void *, const void *, size_t))
{
	struct pollfd pfd = { .fd = sh_control_fd(peer->control), .events = POLLIN };
	int n;

	REQUIRE(poll(&pfd, 1, -1) == 1);
	do {
		n = sh_control_poll(peer->control, receive, peer);
	} while (n == SH_CONTROL_RECEIVES);
	return n;
}

static void echo_one(void *arg, const void *buf, size_t length)
{
	struct peer *peer = arg;

	REQUIRE(!sh_control_send(peer->path, buf, length));
	peer->received++;
}

static void *widen_main(void *arg)
{
	struct peer *peer = arg;

	REQUIRE(!sh_control_widen(peer->control));
	REQUIRE(sh_control_wide(peer->control));
	return NULL;
}

/* No datagram can end it: the answer to the last one would be lost with the QP that has it. */
static int run_echo(struct peer *peer)
{
	struct pollfd fds[] = {
		{ .fd = sh_control_fd(peer->control), .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};

	while (!fds[1].revents) {
		REQUIRE(poll(fds, 2, -1) >= 1);
		if (fds[0].revents)
			REQUIRE(peer_wait(peer, echo_one) >= 0);
		if (peer->received >= WIDE_AT && !sh_control_wide(peer->control))
			widen_main(peer);
	}
	return 0;
}

/* Datagram `number` of the run: its length. */
static size_t datagram_make(const struct peer *peer, uint64_t number, uint8_t *buf)
{
	uint64_t rng = peer->seed ^ number * 0x9e3779b97f4a7c15ull;
	size_t max = sh_path_payload_max(peer->path), length, i;

	length = sizeof(number) + random_below(&rng, (uint32_t)(max - sizeof(number) + 1));
	for (i = 0; i < length; i++)
		buf[i] = (uint8_t)random_next(&rng);
	memcpy(buf, &number, sizeof(number));
	return length;
}

static void drive_send(struct peer *peer)
{
	uint8_t buf[SH_CONTROL_MTU_MAX];

	while (peer->sent < peer->wanted && peer->sent - peer->received < WINDOW) {
		size_t length = datagram_make(peer, peer->sent, buf);

		REQUIRE(!sh_control_send(peer->path, buf, length));
		peer->sent++;
	}
}

static void drive_one(void *arg, const void *got, size_t length)
{
	struct peer *peer = arg;
	uint8_t want[SH_CONTROL_MTU_MAX];

	uint64_t number = 0;

	memcpy(&number, got, length < sizeof(number) ? length : sizeof(number));
	if (number != peer->received)
		fprintf(stderr, "datagram %llu comes, %llu was due, %llu are sent\n",
			(unsigned long long)number, (unsigned long long)peer->received,
			(unsigned long long)peer->sent);
	REQUIRE(length == datagram_make(peer, peer->received, want));
	REQUIRE(!memcmp(got, want, length));
	peer->received++;
}

/*
 * Several threads send faster than the ring empties: what is dropped is said to be, and the channel
 * works afterwards.
 */
static void *burst_main(void *arg)
{
	struct peer *peer = arg;
	uint8_t buf[SH_CONTROL_MTU_MAX + 1] = { 0 };
	int i, ret;

	REQUIRE(sh_control_send(peer->path, buf, sizeof(buf)) == -EMSGSIZE);
	REQUIRE(sh_control_send(peer->path, buf, 0) == -EMSGSIZE);
	for (i = 0; i < BURST; i++) {
		ret = sh_control_send(peer->path, buf, sizeof(uint64_t));
		REQUIRE(!ret || ret == -EAGAIN);
		atomic_fetch_add(&peer->burst_sent, !ret);
	}
	return NULL;
}

static void burst_once(struct peer *peer)
{
	pthread_t threads[BURSTS];
	int i;

	for (i = 0; i < BURSTS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, burst_main, peer));
	for (i = 0; i < BURSTS; i++)
		REQUIRE(!pthread_join(threads[i], NULL));
}

/* A NIC whose thread has a core of its own may send as fast as the bursts come. */
static void burst(struct peer *peer)
{
	int i;

	for (i = 0; i < BURST_TRIES && !sh_control_tight(peer->control); i++)
		burst_once(peer);
	REQUIRE(atomic_load(&peer->burst_sent) >= SH_CONTROL_SENDS);
	REQUIRE(sh_control_tight(peer->control));
}

static void over_one(void *arg, const void *got, size_t length)
{
	struct peer *peer = arg;
	uint64_t number;

	memcpy(&number, got, sizeof(number));
	peer->over = number == OVER;
}

/*
 * Half-way its room gets larger, by another thread while datagrams come and go. Receives are used
 * in turn, so all of the new ones are.
 */
static int run_drive(struct peer *peer)
{
	uint64_t half = peer->wanted / 2;
	bool begun = false;

	while (peer->received < peer->wanted) {
		if (!begun && peer->received >= half) {
			REQUIRE(!pthread_create(&peer->widens, NULL, widen_main, peer));
			begun = true;
		}
		drive_send(peer);
		REQUIRE(peer_wait(peer, drive_one) >= 0);
	}
	REQUIRE(begun && !pthread_join(peer->widens, NULL));
	return 0;
}

/* As the shell does it: doorbells into a dead NIC fail silently, only the event tells. */
static void wait_fatal(struct peer *peer)
{
	struct ibv_async_event event;
	bool fatal;

	do {
		REQUIRE(!ibv_get_async_event(peer->context, &event));
		fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	} while (!fatal);
}

/* The bursts go to itself, so that nobody's window is disturbed. */
static int run_dies(struct peer *peer)
{
	uint64_t over = OVER;
	int ret;

	REQUIRE(!sh_control_tight(peer->control));
	burst(peer);
	widen_main(peer);
	REQUIRE(!sh_control_tight(peer->control));
	while (!peer->over) {
		ret = sh_control_send(peer->path, &over, sizeof(over));
		REQUIRE(!ret || ret == -EAGAIN);
		REQUIRE(peer_wait(peer, over_one) >= 0);
	}
	printf("ready\n");
	fflush(stdout);
	wait_fatal(peer);
	sh_control_mark_dead(peer->control);
	REQUIRE(sh_control_dead(peer->control));
	REQUIRE(sh_control_poll(peer->control, over_one, peer) == -EIO);
	REQUIRE(sh_control_send(peer->path, &over, sizeof(over)) == -EIO);
	return 0;
}

int main(int argc, char **argv)
{
	struct peer peer = { 0 };
	int ret = 1;

	REQUIRE(argc >= 3);
	alarm(PATIENCE_S);
	if (argc >= 5) {
		peer.wanted = strtoull(argv[3], NULL, 0);
		peer.seed = strtoull(argv[4], NULL, 0);
	}
	peer_open(&peer, argv[2]);
	if (!strcmp(argv[1], "echo"))
		ret = run_echo(&peer);
	else if (!strcmp(argv[1], "drive"))
		ret = run_drive(&peer);
	else if (!strcmp(argv[1], "dies"))
		ret = run_dies(&peer);
	peer_close(&peer);
	return ret;
}
