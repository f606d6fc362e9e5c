/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A NIC acknowledges a WRITE and dies before it is in memory. What tells the receiver that the bytes are
 * there must find them there, or must not come.
 *
 *   placed [-s] -p PORT [-w SEC] [-t TIMEOUT] HOW
 *
 * The client writes as HOW says, a letter each: W, w a WRITE of a page each, signaled or not; R a READ of a
 * byte; p polls all that is signaled, e waits for an event and polls nothing. After the fault it sends one
 * message, and the server tells with what it came and how many bytes of the pages are not as written.
 * TIMEOUT is that of the queue pairs. HOW + "w": one more WRITE comes before the message.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/pair.h"

struct options opt = { .timeout = 14, .dev = "mlx5_0", .unsignaled = true };

static struct nic nic;
static struct conn conn;
static struct ibv_comp_channel *channel;
static uint32_t pages, unpolled;

static uint8_t byte_of(uint32_t page)
{
	return (uint8_t)(0x51 + page);
}

static void post(enum ibv_wr_opcode op, uint64_t id, uint32_t offset, uint32_t bytes, bool signaled)
{
	struct ibv_sge sge = { (uintptr_t)conn.mem + offset, bytes, conn.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
				  .wr.rdma = { conn.peer.addr + AREA + offset, conn.peer.rkey } },
			   *bad;

	must_zero(ibv_post_send(conn.qp, &wr, &bad), "ibv_post_send");
	unpolled += signaled;
}

static void write_page(bool signaled)
{
	memset(conn.mem + pages * PART, byte_of(pages), PART);
	post(IBV_WR_RDMA_WRITE, pages, pages * PART, PART, signaled);
	pages++;
}

/* The last status. */
static enum ibv_wc_status poll_all(void)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	for (; unpolled; unpolled--)
		(void)conn_poll(&conn, &wc);
	return wc.status;
}

static void wait_for_event(void)
{
	struct ibv_cq *cq;
	void *context;

	must_zero(ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void step(char what)
{
	switch (what) {
	case 'W':
	case 'w': write_page(what == 'W'); break;
	case 'R': post(IBV_WR_RDMA_READ, 99, (DEPTH - 1) * PART, 1, true); break;
	case 'p': must(poll_all() == IBV_WC_SUCCESS, "good completions"); break;
	case 'e': wait_for_event(); break;
	default: must(false, "a letter of HOW");
	}
}

static void client(const char *how)
{
	bool more = strchr(how, '+');

	must_zero(ibv_req_notify_cq(conn.cq, 0), "ibv_req_notify_cq");
	for (; *how && *how != '+'; how++)
		step(*how);
	swap(&pages, &(uint32_t){ 0 }, sizeof(pages));
	say("ACKED");
	hear("moved");
	if (more) {
		write_page(true);
		say("WRITE %s", ibv_wc_status_str(poll_all()));
	}
	post(IBV_WR_SEND, 100, 0, 1, true);
	say("SENT %s", ibv_wc_status_str(poll_all()));
}

static void server(void)
{
	uint32_t stale = 0;
	struct ibv_wc wc;

	swap(&stale, &pages, sizeof(pages));
	say("ACKED");
	hear("moved");
	(void)conn_poll(&conn, &wc);
	for (uint32_t i = 0; i < pages * PART; i++)
		stale += conn.mem[AREA + i] != byte_of(i / PART);
	say("GOT %s, %u stale", ibv_wc_status_str(wc.status), stale);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:w:t:")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
		opt.wait_s = c == 'w' ? atoi(optarg) : opt.wait_s;
		opt.timeout = c == 't' ? atoi(optarg) : opt.timeout;
	}
	must(optind == argc - 1, "usage: placed [-s] -p PORT [-w SEC] [-t TIMEOUT] HOW");
	line_open();
	nic_open(&nic, opt.dev);
	channel = ibv_create_comp_channel(nic.ctx);
	must(channel, "ibv_create_comp_channel");
	conn_make_on(&conn, &nic, channel, NULL);
	conn_connect_bare(&conn);
	if (opt.server)
		conn_post_recv(&conn, 0);
	say("CONNECTED");
	hear("go");
	if (opt.server)
		server();
	else
		client(argv[optind]);
	meet();
	say("OK");
	conn_free(&conn);
	must_zero(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	nic_close(&nic);
	return 0;
}
