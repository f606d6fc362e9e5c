/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shift_uid_faa() on one word of a server, through ends of its queue pair: each time both ends make another one, and the
 * client goes on with the operation that was under way. In the end the word is what was added, exactly.
 *
 *   uid -s -p PORT
 *   uid -p PORT
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "include/shift/shift_uid.h"
#include "tests/lib/pair.h"

enum { AGAIN = 'a', END = 'e', INSTANCE = 5 };

struct options opt = { .timeout = 13, .dev = "mlx5_0", .wait_s = 60, .unsignaled = true };

struct place {
	uint64_t word, region;
	uint32_t rkey, zero;
};

static struct nic nic;
static struct conn conn;

static void connect_as(const struct place *own, struct place *theirs)
{
	conn_make(&conn, &nic);
	conn_connect_bare(&conn);
	swap(own, theirs, sizeof(*own));
}

static void serve(void)
{
	size_t bytes = shift_uid_region_size();
	uint8_t *memory = NULL;
	struct place place = { 0 }, none;
	struct ibv_mr *mr;
	char word = AGAIN;

	must_zero(posix_memalign((void **)&memory, 4096, bytes + 4096), "memory");
	shift_uid_region_init(memory);
	*(uint64_t *)(memory + bytes) = 0;
	mr = ibv_reg_mr(nic.pd, memory, bytes + 4096,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	must(mr, "ibv_reg_mr");
	place.region = (uintptr_t)memory;
	place.word = place.region + bytes;
	place.rkey = mr->rkey;
	line_open();
	while (word == AGAIN) {
		connect_as(&place, &none);
		must(read(sock, &word, 1) == 1, "a word");
		conn_free(&conn);
		must(write(sock, &word, 1) == 1, "the answer"); /* nothing of it comes any more */
	}
	say("COUNTER %ju", (uintmax_t)shift_uid_value(memory, (uint64_t *)(memory + bytes)));
	must_zero(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void tell(char word)
{
	must(write(sock, &word, 1) == 1 && read(sock, &word, 1) == 1, "both know");
}

static int resume(struct shift_uid *uid, uint64_t *old)
{
	static const struct place none;
	struct place place;

	tell(AGAIN);
	conn_free(&conn);
	connect_as(&none, &place);
	return shift_uid_resume(uid, conn.qp, conn.cq, old);
}

static bool told(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };

	return poll(&in, 1, 0) > 0;
}

static void client(void)
{
	static const struct place none;
	uint64_t n = 0, old = 0, wrong = 0, resumed = 0;
	struct shift_uid_attr attr = { .instance = INSTANCE };
	struct shift_uid *uid;
	struct place place;
	int ret;

	line_open();
	connect_as(&none, &place);
	attr.qp = conn.qp;
	attr.cq = conn.cq;
	attr.region = place.region;
	attr.rkey = place.rkey;
	uid = shift_uid_open(&attr);
	must(uid, "shift_uid_open");
	say("CONNECTED");
	while (!told()) {
		ret = shift_uid_faa(uid, place.word, place.rkey, 1, &old);
		must(!ret || ret == ECONNRESET, "a result");
		for (; ret; resumed++)
			ret = resume(uid, &old);
		wrong += old != n++;
		if (n % 100 == 0)
			say("GOOD %ju, %ju resumed", (uintmax_t)n, (uintmax_t)resumed);
	}
	say("ADDED %ju, %ju wrong, %ju resumed", (uintmax_t)n, (uintmax_t)wrong,
	    (uintmax_t)resumed);
	tell(END);
	shift_uid_close(uid);
	conn_free(&conn);
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "sp:")) != -1) {
		opt.server |= c == 's';
		opt.port = c == 'p' ? atoi(optarg) : opt.port;
	}
	must(optind == argc, "usage: uid [-s] -p PORT");
	nic_open(&nic, opt.dev);
	opt.server ? serve() : client();
	nic_close(&nic);
	say("OK");
	return 0;
}
