// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * loopback: what NCCL does with data that its NIC writes to a GPU. A receiver has queue pairs to several
 * senders, and a loopback QP, all on one completion queue. Senders WRITE numbered messages with
 * immediate data. When a receive completes, the receiver READs a byte of each message that has come by
 * the loopback QP, and looks at a message only when the loopback READ is complete: the message must
 * be there then, whichever NIC it came over. With -x the receiver looks at once, and counts what is
 * not there yet. With -d the memory is a dma-buf; with -w a message is a WRITE that nobody is told
 * of and an immediate behind it, as NCCL sends where the network reorders. Words of the runner: "count" says how many messages have come from each sender, "end"
 * ends it: the senders first.
 */
#include "tests/lib/pair.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	PEERS = 2,
	QPS = 2, /* to each peer */
	LANES = PEERS * QPS,
	WINDOW = 4, /* messages of a queue pair that the receiver has not looked at yet */
	LEN = 4096,
	SHORT = 1024, /* one packet */
	SLOTS = LANES * WINDOW,
	LOOPBACK = 1 << 20, /* a wr_id */
	MEMORY = SLOTS * LEN + 4096,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

struct options opt = { .port = 18515, .timeout = 18, .dev = "mlx5_0" };

struct lane {
	struct ibv_qp *qp;
	int peer;
	struct address there;
	uint64_t sent, done, taken; /* by the sender; completed; looked at by the receiver */
	uint64_t came;
};

/* Messages that wait for a loopback READ. */
struct waiting {
	int lane;
	uint64_t number;
};

static struct nic nic;
static struct ibv_cq *cq;
static struct ibv_qp *self;
static struct ibv_mr *mr;
static uint8_t *mem; /* SLOTS of messages, then a byte for the loopback READs */
static struct lane lanes[LANES];
static int n_lanes, n_peers = PEERS, lines[PEERS];
static struct waiting waiting[2 * SLOTS];
static int n_waiting, n_reading; /* of them, the first ones have loopback READs */
static uint64_t stale, looked;
static uint32_t length = LEN;
static bool no_reads, as_dmabuf, two_requests;

static uint8_t *slot_of(int lane, uint64_t number)
{
	return mem + ((size_t)lane * WINDOW + number % WINDOW) * LEN;
}

static uint8_t filling(uint64_t number)
{
	return (uint8_t)(number * 31 + 7);
}

static struct lane *lane_of(uint32_t qpn)
{
	int i;

	for (i = 0; i < n_lanes; i++)
		if (lanes[i].qp->qp_num == qpn)
			return &lanes[i];
	must(false, "a completion of a queue pair that there is");
	return NULL;
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	must_zero(ibv_post_send(qp, wr, &bad), "ibv_post_send");
}

static void give(struct lane *lane)
{
	struct ibv_recv_wr wr = { .wr_id = 0 }, *bad;

	must_zero(ibv_post_recv(lane->qp, &wr, &bad), "ibv_post_recv");
}

/* ---- the receiver --------------------------------------------------------------------------- */

static void look(const struct waiting *message)
{
	struct lane *lane = &lanes[message->lane];
	const uint8_t *bytes = slot_of(message->lane, message->number);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl((uint32_t)message->number) };
	int i;

	for (i = 0; i < (int)length && bytes[i] == filling(message->number); i++)
		;
	stale += i < (int)length;
	if (i < (int)length && !no_reads)
		say("FAILED message %llu of queue pair %d is not there at byte %d: 0x%02x, not "
		    "0x%02x",
		    (unsigned long long)message->number, message->lane, i, bytes[i],
		    filling(message->number));
	must(i == (int)length || no_reads, "what a loopback READ passed is there");
	looked++;
	post(lane->qp, &wr);
}

static void look_at_first(int n)
{
	int i;

	for (i = 0; i < n; i++)
		look(&waiting[i]);
	n_waiting -= n;
	memmove(waiting, waiting + n, (size_t)n_waiting * sizeof(*waiting));
}

/* A READ of each message, the last one signaled. */
static void post_loopback_reads(void)
{
	uint8_t *byte = mem + (size_t)SLOTS * LEN;
	struct ibv_sge sge = { (uintptr_t)byte, 1, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = LOOPBACK,
				  .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { .rkey = mr->rkey } };
	int i;

	for (i = 0; i < n_waiting; i++) {
		wr.wr.rdma.remote_addr = (uintptr_t)slot_of(waiting[i].lane, waiting[i].number);
		wr.send_flags = i + 1 == n_waiting ? (unsigned int)IBV_SEND_SIGNALED : 0;
		post(self, &wr);
	}
	n_reading = n_waiting;
}

static void came(struct lane *lane, const struct ibv_wc *wc)
{
	must(ntohl(wc->imm_data) == (uint32_t)lane->came, "the next message");
	waiting[n_waiting++] = (struct waiting){ (int)(lane - lanes), lane->came++ };
	give(lane);
}

/* ---- the sender ----------------------------------------------------------------------------- */

static void send_one(struct lane *lane)
{
	int which = (int)(lane - lanes);
	uint64_t number = lane->sent++;
	uint8_t *bytes = slot_of(which, number);
	struct ibv_sge sge = { (uintptr_t)bytes, length, mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .imm_data = htonl((uint32_t)number),
				  .wr.rdma = { lane->there.addr + number % WINDOW * LEN,
					       lane->there.rkey } };

	memset(bytes, filling(number), length);
	if (two_requests) {
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags = 0;
		post(lane->qp, &wr);
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.num_sge = 0;
	}
	post(lane->qp, &wr);
}

static void taken(struct lane *lane, const struct ibv_wc *wc)
{
	must(ntohl(wc->imm_data) == (uint32_t)lane->taken, "the next message was looked at");
	lane->taken++;
	give(lane);
}

/* ---- both ----------------------------------------------------------------------------------- */

static void take(const struct ibv_wc *wc)
{
	if (wc->status)
		say("FAILED status %d of QP 0x%06x", wc->status, wc->qp_num);
	must(!wc->status, "a good completion");
	if (wc->wr_id == LOOPBACK) {
		must(wc->qp_num == self->qp_num, "a READ of the loopback QP");
		look_at_first(n_reading);
		n_reading = 0;
	} else if (!(wc->opcode & IBV_WC_RECV)) {
		lane_of(wc->qp_num)->done++;
	} else if (opt.server) {
		came(lane_of(wc->qp_num), wc);
	} else {
		taken(lane_of(wc->qp_num), wc);
	}
}

static void turn(bool talk)
{
	struct lane *lane;
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(cq, 8, wc), i;

	must(n >= 0, "ibv_poll_cq");
	for (i = 0; i < n; i++)
		take(&wc[i]);
	if (no_reads)
		look_at_first(n_waiting);
	else if (n_waiting && !n_reading)
		post_loopback_reads();
	for (lane = lanes; talk && lane < lanes + n_lanes; lane++)
		while (lane->sent < lane->taken + WINDOW && lane->sent < lane->done + WINDOW)
			send_one(lane);
	if (!n)
		usleep(50);
}

/* ---- setting up ----------------------------------------------------------------------------- */

static void connect_to(struct conn *c)
{
	conn_to_init(c);
	conn_to_rts_alone(c);
}

static struct ibv_qp *qp_make(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = 4 * SLOTS,
						  .max_recv_wr = 2 * WINDOW,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(nic.pd, &init);

	must(qp, "ibv_create_qp");
	return qp;
}

static void lane_make(int peer)
{
	struct lane *lane = &lanes[n_lanes];
	struct conn c = { .nic = &nic, .mr = mr, .mem = slot_of(n_lanes, 0) };
	int i;

	lane->peer = peer;
	lane->qp = c.qp = qp_make();
	n_lanes++;
	conn_set_own(&c);
	sock = lines[peer];
	swap(&c.own, &c.peer, sizeof(c.own));
	lane->there = c.peer;
	conn_to_init(&c);
	for (i = 0; i < 2 * WINDOW; i++)
		give(lane);
	conn_to_rts_alone(&c);
	meet();
}

static void self_make(void)
{
	struct conn c = { .nic = &nic, .mr = mr, .mem = mem };

	self = c.qp = qp_make();
	conn_set_own(&c);
	c.peer = c.own;
	connect_to(&c);
}

/* Any file that can be mapped serves as a dma-buf. */
static void memory_make(void)
{
	int fd = memfd_create("loopback", MFD_CLOEXEC);

	must(fd >= 0, "memfd_create");
	must_zero(ftruncate(fd, MEMORY), "ftruncate");
	mem = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(mem != MAP_FAILED, "mmap");
	if (as_dmabuf)
		mr = ibv_reg_dmabuf_mr(nic.pd, 0, MEMORY, (uintptr_t)mem, fd, ACCESS);
	else
		mr = ibv_reg_mr(nic.pd, mem, MEMORY, ACCESS);
	must(mr, "a region");
	close(fd);
}

static void set_up(void)
{
	int peer, i;

	nic_open(&nic, opt.dev);
	memory_make();
	cq = ibv_create_cq(nic.ctx, LANES * 8 * SLOTS, NULL, NULL, 0);
	must(cq, "ibv_create_cq");
	if (opt.server)
		self_make();
	for (peer = 0; peer < n_peers; peer++) {
		line_open();
		lines[peer] = sock;
		for (i = 0; i < QPS; i++)
			lane_make(peer);
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

static void tear_down(void)
{
	int i;

	for (i = 0; i < n_lanes; i++)
		must_zero(ibv_destroy_qp(lanes[i].qp), "ibv_destroy_qp");
	if (self)
		must_zero(ibv_destroy_qp(self), "ibv_destroy_qp");
	must_zero(ibv_destroy_cq(cq), "ibv_destroy_cq");
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
	nic_close(&nic);
	munmap(mem, MEMORY);
}

static bool all_taken(void)
{
	int i;

	for (i = 0; i < n_lanes; i++)
		if (lanes[i].taken < lanes[i].sent || lanes[i].done < lanes[i].sent)
			return false;
	return true;
}

/* The senders end when all they have sent was looked at, and then the receiver. */
static void finish(void)
{
	double end = now_s() + 30;
	int peer;

	while (!opt.server && !all_taken()) {
		turn(false);
		must(now_s() < end, "everything looked at within 30 s");
	}
	say("DONE");
	for (peer = 0; peer < n_peers; peer++) {
		sock = lines[peer];
		meet();
	}
}

static void count(void)
{
	uint64_t n[PEERS] = { 0 };
	int i;

	for (i = 0; i < n_lanes; i++)
		n[lanes[i].peer] += opt.server ? lanes[i].came : lanes[i].taken;
	say("COUNT %llu %llu", (unsigned long long)n[0], (unsigned long long)n[1]);
}

static bool told(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

int main(int argc, char **argv)
{
	char word[16] = "";
	int c;

	while ((c = getopt(argc, argv, "sxdwp:")) != -1) {
		if (c == 's')
			opt.server = true;
		else if (c == 'd')
			as_dmabuf = true;
		else if (c == 'w')
			two_requests = true, length = SHORT;
		else if (c == 'x')
			no_reads = true;
		else if (c == 'p')
			opt.port = atoi(optarg);
		else
			exit(2);
	}
	if (!opt.server)
		n_peers = 1;
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() must know of words that came together */
	set_up();
	say("CONNECTED %d", n_lanes);
	while (strcmp(word, "end\n")) {
		while (!told())
			turn(!opt.server);
		must(fgets(word, sizeof(word), stdin), "a word of the runner");
		if (!strcmp(word, "count\n"))
			count();
	}
	finish();
	say("OK %llu, %llu stale", (unsigned long long)looked, (unsigned long long)stale);
	tear_down();
	return 0;
}
