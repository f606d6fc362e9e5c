/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a peer, or somebody who poses as one, may send: any bytes. They are read; what can be read is written to the same
 * bytes; and both ends are given it in any order, which must not break an assertion, a sanitizer, or their limits.
 */
#include "sdr/core/packet.h"
#include "sdr/rel/ctrl_wire.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8, CHUNKS = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	struct sdr_core c;
	struct sdr_slot slots[SLOTS];
	struct sdr_send sends[SLOTS];
	_Atomic uint64_t words[SLOTS * 6];
	uint32_t left_at[CHUNKS];
	uint64_t now, acked[2], wanted[2], have[2], have_parity[2], want[2];
	uint32_t asked[CHUNKS];
	struct sdr_sub subs[CHUNKS];
	struct sdr_tx tx;
	struct sdr_rx rx;
	struct sdr_join join;
} t;

static void step(struct sdr_event e)
{
	struct sdr_actions a;

	sdr_core_step(&t.c, &e, t.now, &a);
	for (uint32_t i = 0; i < a.n; i++) {
		struct sdr_event done = { .n = a.list[i].n, .rkeys = { 5 } };

		if (a.list[i].type == SDR_ACTION_BIND)
			done.type = SDR_EVENT_BOUND;
		else if (a.list[i].type == SDR_ACTION_UNBIND)
			done.type = SDR_EVENT_UNBOUND;
		else
			continue;
		step(done);
	}
}

static void begin(void)
{
	static const struct sdr_core_attr attr = { .slots = SLOTS,
						   .generations = 4,
						   .id_bits = 10,
						   .offset_bits = 18,
						   .packet = 1,
						   .max_packets = CHUNKS,
						   .lifetime_ns = 1000,
						   .repeat_ns = 10 };
	struct sdr_plan p = { .kind = SDR_SCHEME_SR,
			      .chunks = CHUNKS,
			      .bytes = 1,
			      .inject_ns = 1,
			      .rtt_ns = 50,
			      .rto_ns = 100 };
	const struct sdr_rx_memory m = { t.have, t.have_parity, t.want, t.asked, t.subs };
	struct sdr_range range;

	memset(&t, 0, sizeof(t));
	sdr_join_init(&t.join, 1000);
	if (sdr_core_words(&attr) > SLOTS * 6 ||
	    sdr_core_init(&t.c, &attr, t.slots, t.sends, t.words))
		abort();
	for (int i = 0; i < SLOTS; i++) {
		step((struct sdr_event){ .type = SDR_EVENT_RECV_POST, .length = CHUNKS });
		step((struct sdr_event){ .type = SDR_EVENT_SEND_POST });
	}
	sdr_plan_lay(&p, 1.25);
	if (sdr_tx_init(&t.tx, 0, &p, t.acked, t.wanted, t.left_at, 1000000))
		abort();
	sdr_tx_allow(&t.tx, 0);
	sdr_tx_next(&t.tx, CHUNKS / 2, 0, &range);
	sdr_rx_init(&t.rx, 0, CHUNKS, CHUNKS, &m, 1000000);
	sdr_rx_bits(&t.rx, t.slots[0].bits.chunks, t.slots[1].bits.chunks);
}

static void hear(const struct sdr_ctrl *c)
{
	struct sdr_event e = { .type = SDR_EVENT_HEARD,
			       .n = c->head.cts_seen,
			       .count = c->head.ends_seen };

	step(e);
	sdr_join_hear_life(&t.join, c->head.life[0], t.now);
	if (c->head.type == SDR_CTRL_JOIN)
		sdr_join_hear(&t.join, (uint8_t)c->join.life, (enum sdr_join_stage)c->join.stage,
			      t.now);
	for (uint32_t i = 0; c->head.type == SDR_CTRL_CTS && i < c->count; i++)
		step((struct sdr_event){ .type = SDR_EVENT_CTS, .n = c->n + i, .cts = c->cts[i] });
	if (c->head.type == SDR_CTRL_END)
		step((struct sdr_event){
			.type = SDR_EVENT_PEER_END, .n = c->n, .count = c->count });
	if (c->head.type == SDR_CTRL_ACK)
		sdr_tx_ack(&t.tx, &c->ack, t.now);
	if (c->head.type == SDR_CTRL_DONE)
		sdr_tx_done(&t.tx, c->n, c->status);
	if (c->head.type == SDR_CTRL_OFFER)
		sdr_rx_offer(&t.rx, &c->plan, t.now);
	if (c->head.type == SDR_CTRL_PROBE)
		sdr_rx_probe(&t.rx, t.now);
}

/* Whatever was said, only what is due is asked for, one at a time. */
static void join_on(uint8_t how)
{
	uint32_t todo;

	if (how & 32)
		sdr_join_fail(&t.join, t.now);
	if (t.join.join_state > SDR_JOIN_CLOSING)
		sdr_join_ready(&t.join, t.now);
	todo = sdr_join_tick(&t.join, t.now);
	if (todo & SDR_TODO_CLOSE)
		sdr_join_closed(&t.join, t.now);
	if (todo & SDR_TODO_MAKE)
		sdr_join_made(&t.join, how & 64, t.now);
	if (todo & SDR_TODO_CONNECT)
		sdr_join_connected(&t.join, how & 64, t.now);
}

static void go_on(uint8_t how)
{
	struct sdr_rel_actions a;
	struct sdr_range range;

	t.now += 1u << (how & 15);
	join_on(how);
	step((struct sdr_event){ .type = SDR_EVENT_TICK });
	step((struct sdr_event){ .type = SDR_EVENT_RECV_POST, .length = CHUNKS });
	step((struct sdr_event){ .type = SDR_EVENT_SEND_POST });
	if (how & 16)
		step((struct sdr_event){ .type = SDR_EVENT_RECV_COMPLETE,
					 .n = t.c.recv_next - SLOTS });
	sdr_tx_tick(&t.tx, t.now, &a);
	sdr_tx_next(&t.tx, 7, t.now, &range);
	sdr_rx_poll(&t.rx, t.now, &a);
	for (uint32_t i = 0; i < a.n; i++) {
		if (a.list[i].say == SDR_SAY_DECODE)
			sdr_rx_decoded(&t.rx, a.list[i].n, t.now);
		if (a.list[i].say == SDR_SAY_ACK && sdr_rx_ack(&t.rx, &a.list[i]).nbits > CHUNKS)
			abort();
	}
	if (t.tx.n_acked > CHUNKS || t.rx.n_have > CHUNKS || t.tx.n_wanted > CHUNKS)
		abort();
}

/* Datagrams, each behind two bytes of its length and one that says what happens then. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sdr_ctrl c;
	static uint8_t again[SDR_CTRL_MAX];
	size_t n;

	begin();
	while (size >= 3) {
		n = (size_t)(data[0] | data[1] << 8) % (SDR_CTRL_MAX + 1);
		if (n > size - 3)
			n = size - 3;
		if (!sdr_ctrl_read(&c, data + 3, n)) {
			if (sdr_ctrl_write(&c, again, sizeof(again)) != (int)n ||
			    memcmp(again, data + 3, n))
				abort();
			hear(&c);
		}
		/* And packets, with whatever immediate. */
		if (n >= 5)
			sdr_packet(&t.c,
				   (uint32_t)data[3] << 24 | (uint32_t)data[4] << 16 |
					   (uint32_t)data[5] << 8 | data[6],
				   data[2] & 3);
		go_on(data[2]);
		data += 3 + n;
		size -= 3 + n;
	}
	return 0;
}
