/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Checks of shared receive queues, of numbers and commands, and of what Linux says of the NIC. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/probe/check.h"
#include "tools/probe/pair.h"

/* ---- srq-last -------------------------------------------------------------------------------- */

static int sends_await(struct pr_pair *pair, unsigned n)
{
	struct pr_wr send = pr_request(pair, MLX5_OPCODE_SEND, PR_OUT, 0, 64);
	struct pr_done d;

	for (unsigned i = 0; i < n; i++) {
		send.signaled = i == n - 1;
		pr_lay(&pair->mine, &send);
	}
	pr_publish(&pair->mine, false);
	if (pr_wait(&pair->mine, &d, PR_LONG_MS) && pr_is_good(&d))
		return 0;
	return pr_fail("%u SENDs to a shared receive queue do not complete", n);
}

/* Three of eight by a queue pair that then ends, the other five by the second one. */
static enum pr_verdict srq_last_run(struct probe *p, struct pr_pair pairs[2], struct pr_result *r)
{
	json_t *said, *list;
	bool event;
	int good, rc;

	if (pr_tell(&p->peer, "{s:s, s:i, s:i, s:i}", "op", "recv", "slot", 2, "n", 8, "len", 64) ||
	    sends_await(&pairs[0], 3))
		return PR_CANNOT_TELL;
	said = pr_ask(&p->peer, "{s:s, s:i}", "op", "last-wqe", "slot", 2);
	if (!said)
		return PR_CANNOT_TELL;
	event = json_is_true(json_object_get(said, "event"));
	good = (int)pr_int(said, "good");
	pr_note(r, "event_us", pr_int(said, "us"));
	pr_note(r, "completed_at_event", good);
	json_decref(said);
	if (!event)
		return pr_fails(r, "no LAST_WQE_REACHED within 3 s");
	if (good != 3)
		return pr_fails(r, "at the event %d of 3 completions were there", good);
	rc = sends_await(&pairs[1], 5);
	if (!rc)
		rc = pr_peer_poll(p, 3, 5, 0, &list);
	else
		list = NULL;
	json_decref(list);
	return rc && !p->peer.gone ? pr_fails(r, "%s: the queue lost receives", pr_why())
	       : rc		   ? PR_CANNOT_TELL
				   : PR_HOLDS;
}

enum pr_verdict check_srq_last(struct probe *p, struct pr_result *r)
{
	enum pr_verdict verdict;
	struct pr_pair pairs[2];

	if (pr_pair_open(p, &pairs[0], 2, true, NULL))
		return PR_CANNOT_TELL;
	if (pr_pair_open(p, &pairs[1], 3, true, NULL)) {
		pr_pair_close(p, &pairs[0]);
		return PR_CANNOT_TELL;
	}
	verdict = srq_last_run(p, pairs, r);
	pr_pair_close(p, &pairs[1]);
	pr_pair_close(p, &pairs[0]);
	return verdict;
}

/* ---- srq-taker ------------------------------------------------------------------------------- */

static enum pr_verdict taker_run(struct pr_end *end, struct pr_result *r)
{
	struct pr_wr send = { .opcode = MLX5_OPCODE_SEND, .signaled = true };
	unsigned sent = 0, taken = 0;
	struct pr_done d;

	if (pr_end_recv(end, 5, 0, 64))
		return PR_CANNOT_TELL;
	for (unsigned i = 0; i < 5; i++)
		pr_lay(end, &send);
	pr_publish(end, false);
	while (sent + taken < 10 && pr_wait(end, &d, PR_LONG_MS)) {
		if (!pr_is_good(&d))
			return pr_fails(r, "an empty message to itself ends with %s",
					pr_done_text(&d));
		sent += d.opcode == MLX5_CQE_REQ;
		taken += d.opcode == MLX5_CQE_RESP_SEND && !d.bytes;
	}
	pr_note(r, "sent", sent);
	pr_note(r, "taken", taken);
	return sent == 5 && taken == 5 ? PR_HOLDS
				       : pr_fails(r, "of 5 receives %u were taken", taken);
}

enum pr_verdict check_srq_taker(struct probe *p, struct pr_result *r)
{
	struct pr_end_options opt = { .srq = pr_srq_make(&p->dev), .timeout = 14, .retry = 7 };
	enum pr_verdict verdict = PR_CANNOT_TELL;
	struct pr_end end;

	if (!opt.srq)
		return PR_CANNOT_TELL;
	if (!pr_end_make(&end, &p->dev, &opt)) {
		if (!pr_end_connect_self(&end, &opt))
			verdict = taker_run(&end, r);
		pr_end_free(&end);
	}
	pr_events_clear(&p->dev);
	ibv_destroy_srq(opt.srq);
	return verdict;
}

/* ---- qpn-reuse ------------------------------------------------------------------------------- */

#define NUMBERS 256u
#define NEAR	16u /* so soon a number must not come back */

/* How many queue pairs later a number came back, at the least; 0: never. */
static unsigned nearest(const uint32_t *qpn, unsigned n)
{
	unsigned best = 0;

	for (unsigned i = 0; i < n; i++)
		for (unsigned k = i + 1; k < n && (!best || k - i < best); k++)
			if (qpn[i] == qpn[k])
				best = k - i;
	return best;
}

enum pr_verdict check_qpn_reuse(struct probe *p, struct pr_result *r)
{
	const struct pr_end_options opt = { 0 };
	uint32_t qpn[NUMBERS];
	struct pr_end end;
	unsigned near;

	for (unsigned i = 0; i < NUMBERS; i++) {
		if (pr_end_make(&end, &p->dev, &opt))
			return PR_CANNOT_TELL;
		qpn[i] = end.qp->qp_num;
		pr_end_free(&end);
	}
	near = nearest(qpn, NUMBERS);
	pr_note(r, "made", NUMBERS);
	pr_note(r, "back_after", near);
	return near && near < NEAR ? pr_fails(r, "a number came back after %u queue pairs", near)
				   : PR_HOLDS;
}

/* ---- cmd-cost -------------------------------------------------------------------------------- */

#define COST_TIMES   40u
#define COST_THREADS 4u
#define COST_LIMIT   100.0 /* ms, of the median: a quarter of SHIFT_COMMAND_MS */
#define COST_NS	     2000000000ull

enum cost {
	COST_MAKE,
	COST_QUERY,
	COST_CONNECT,
	COST_ERR,
	COST_RESET,
	COST_DESTROY,
	COST_REG,
	COSTS,
};

static const char *const cost_names[COSTS] = {
	[COST_MAKE] = "create_cq_and_qp_us", [COST_QUERY] = "query_qp_us",
	[COST_CONNECT] = "init_rtr_rts_us",  [COST_ERR] = "modify_err_us",
	[COST_RESET] = "modify_reset_us",    [COST_DESTROY] = "destroy_qp_and_cq_us",
	[COST_REG] = "reg_dereg_2M_us",
};

struct costs {
	struct pr_dev *dev;
	unsigned n;
	int failed;
	double us[COSTS][COST_TIMES];
};

static double lap_us(uint64_t *at)
{
	uint64_t now = pr_now_ns(), began = *at;

	*at = now;
	return (double)(now - began) / 1e3;
}

static int cost_query(struct pr_end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) ? -1 : 0;
}

static int cost_register(struct pr_dev *dev)
{
	struct ibv_mr *mr = ibv_reg_mr(dev->pd, dev->mem, PR_ARENA, IBV_ACCESS_LOCAL_WRITE);

	return mr && !ibv_dereg_mr(mr) ? 0 : -1;
}

/* Times one life of a queue pair. */
static int cost_once(struct costs *c)
{
	const struct pr_end_options opt = { 0 };
	uint64_t at = pr_now_ns();
	struct pr_end end;
	unsigned i = c->n;

	if (pr_end_make(&end, c->dev, &opt))
		return -1;
	c->us[COST_MAKE][i] = lap_us(&at);
	c->failed |= cost_query(&end);
	c->us[COST_QUERY][i] = lap_us(&at);
	c->failed |= pr_end_connect_self(&end, &opt);
	c->us[COST_CONNECT][i] = lap_us(&at);
	c->failed |= pr_end_state(&end, IBV_QPS_ERR);
	c->us[COST_ERR][i] = lap_us(&at);
	c->failed |= pr_end_state(&end, IBV_QPS_RESET);
	c->us[COST_RESET][i] = lap_us(&at);
	pr_end_free(&end);
	c->us[COST_DESTROY][i] = lap_us(&at);
	c->failed |= cost_register(c->dev);
	c->us[COST_REG][i] = lap_us(&at);
	c->n++;
	return c->failed;
}

static void *cost_run(void *arg)
{
	uint64_t end_ns = pr_now_ns() + COST_NS;
	struct costs *c = arg;

	while (c->n < COST_TIMES && !c->failed && (!c->n || pr_now_ns() < end_ns))
		c->failed |= cost_once(c);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts: the median is in the middle, the slowest at the end. */
static double cost_median(struct costs *c, enum cost what)
{
	qsort(c->us[what], c->n, sizeof(double), by_value);
	return c->us[what][c->n / 2];
}

/* Lives a second, of all threads together; 0: a command failed. */
static double cost_rate(struct pr_dev *dev, unsigned threads, struct costs *c)
{
	uint64_t began = pr_now_ns();
	pthread_t thread[COST_THREADS];
	unsigned lives = 0, made = 0;
	bool failed = false;

	for (; made < threads; made++) {
		c[made] = (struct costs){ .dev = dev };
		if (pthread_create(&thread[made], NULL, cost_run, &c[made]))
			break;
	}
	for (unsigned i = 0; i < made; i++) {
		pthread_join(thread[i], NULL);
		lives += c[i].n;
		failed |= c[i].failed || !c[i].n;
	}
	return failed || made < threads ? 0 : lives / ((double)(pr_now_ns() - began) / 1e9);
}

static enum pr_verdict cost_judge(struct costs *c, struct pr_result *r)
{
	enum pr_verdict verdict = PR_HOLDS;

	for (enum cost what = 0; what < COSTS; what++) {
		double median = cost_median(c, what);

		pr_note_real(r, cost_names[what], median);
		if (median > COST_LIMIT * 1e3 && verdict == PR_HOLDS)
			verdict = pr_fails(r, "%s: %.1f ms, as the median of %u", cost_names[what],
					   median / 1e3, c->n);
	}
	return verdict;
}

enum pr_verdict check_cmd_cost(struct probe *p, struct pr_result *r)
{
	static struct costs c[COST_THREADS];
	enum pr_verdict verdict;
	double alone, together;

	alone = cost_rate(&p->dev, 1, c);
	if (!alone)
		return pr_cannot_tell(r, "a command fails");
	verdict = cost_judge(&c[0], r);
	together = cost_rate(&p->dev, COST_THREADS, c);
	if (!together)
		return pr_cannot_tell(r, "a command fails, of several threads at once");
	/* 1: commands are serial; 4: four threads do four times as much */
	pr_note_real(r, "speedup_of_4_threads", together / alone);
	return verdict;
}

/* ---- netdev ---------------------------------------------------------------------------------- */

static bool read_word(const char *path, char *buf, size_t cap)
{
	FILE *f = fopen(path, "re");
	bool read = f && fgets(buf, (int)cap, f);

	if (f)
		fclose(f);
	if (read)
		buf[strcspn(buf, "\n")] = '\0';
	return read && *buf;
}

enum pr_verdict check_netdev(struct probe *p, struct pr_result *r)
{
	char path[256], name[64], index[16];

	if (!pr_dev_ethernet(&p->dev))
		return pr_cannot_tell(r,
				      "the link layer is InfiniBand, where the port's events tell");
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d",
		 p->dev.name, p->dev.gid_index);
	if (!read_word(path, name, sizeof(name)))
		return pr_fails(r, "the GID in use has no entry in ports/1/gid_attrs/ndevs");
	snprintf(path, sizeof(path), "/sys/class/net/%.60s/ifindex", name);
	if (!read_word(path, index, sizeof(index)))
		return pr_fails(
			r, "Linux has no interface of the name that the GID's entry gives, in this "
			   "network namespace");
	pr_note_text(r, "named_by", "gid_attrs/ndevs");
	snprintf(path, sizeof(path), "/sys/class/net/%.60s/carrier", name);
	pr_note(r, "carrier_readable", read_word(path, index, sizeof(index)));
	snprintf(path, sizeof(path), "/proc/net/vlan/%.60s", name);
	pr_note(r, "is_vlan", read_word(path, index, sizeof(index)));
	return PR_HOLDS;
}

/* ---- bus-master ------------------------------------------------------------------------------ */

#define PCI_HEADER	   64
#define PCI_COMMAND	   4
#define PCI_COMMAND_MASTER 0x04

/* Reads the header; a subfunction's is its parent's. */
static bool read_config(const char *device, uint8_t header[PCI_HEADER])
{
	char path[256];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/config", device);
	f = fopen(path, "re");
	if (!f) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/../config", device);
		f = fopen(path, "re");
	}
	if (f) {
		n = fread(header, 1, PCI_HEADER, f);
		fclose(f);
	}
	return n == PCI_HEADER;
}

enum pr_verdict check_bus_master(struct probe *p, struct pr_result *r)
{
	uint8_t header[PCI_HEADER];
	char path[256];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", p->dev.name);
	if (access(path, F_OK))
		return pr_cannot_tell(r, "it is a device of software alone, on no bus");
	if (!read_config(p->dev.name, header))
		return pr_fails(r, "the PCI config space below /sys cannot be read");
	pr_note(r, "command", header[PCI_COMMAND] | header[PCI_COMMAND + 1] << 8);
	if (!(header[PCI_COMMAND] & PCI_COMMAND_MASTER))
		return pr_fails(r, "a NIC that works is said not to be master of the bus");
	return PR_HOLDS;
}
