/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A connection: its queue pairs, its backend, its core. */
#include "sdr/shell/blob.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MIB = 1 << 20, MAX_MSGS = 64, RECV_DEPTH = 4096, ROOT_GENERATIONS = 4 };

#define REPEAT_NS	20000000ull /* period until a round trip is known */
#define LIFETIME_NS	1000000000ull
#define LIFETIME_MAX_NS 3600000000000ull

SDR_API const char *sdr_backend_name(enum sdr_backend backend)
{
	static const char *const names[] = { "auto", "window", "stage", "root" };

	return backend <= SDR_BACKEND_ROOT ? names[backend] : "?";
}

SDR_API enum sdr_backend sdr_qp_backend(const struct sdr_qp *qp)
{
	return qp->attr.backend;
}

uint32_t sdr_chunk_bytes(const struct sdr_qp *qp)
{
	return qp->packet << qp->core.attr.chunk_shift;
}

uint64_t sdr_msg_room(const struct sdr_qp *qp)
{
	return (uint64_t)qp->max_packets * qp->packet;
}

int sdr_qp_step(struct sdr_qp *qp, struct sdr_event *e)
{
	struct sdr_actions a = { 0 };
	int ret = sdr_core_step(&qp->core, e, qp->now, &a);

	sdr_actions_do(qp, &a);
	return ret;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Returns the MTU that all of the context's NICs can use. */
static enum ibv_mtu least_mtu(const struct sdr_context *ctx)
{
	enum ibv_mtu mtu = ctx->nics[0].mtu;

	for (uint32_t i = 1; i < ctx->n_nics; i++)
		if (ctx->nics[i].mtu < mtu)
			mtu = ctx->nics[i].mtu;
	return mtu;
}

static bool has_windows(const struct sdr_context *ctx)
{
	for (uint32_t i = 0; i < ctx->n_nics; i++)
		if (!ctx->nics[i].windows)
			return false;
	return true;
}

static void set_defaults(struct sdr_qp_attr *a, const struct sdr_context *ctx)
{
	a->max_msg_size = a->max_msg_size ? a->max_msg_size : MIB;
	if (!a->chunk_size)
		a->chunk_size = sdr_choose_chunk(a->max_msg_size, sdr_mtu_bytes(least_mtu(ctx)));
	a->max_msgs = a->max_msgs ? a->max_msgs : MAX_MSGS;
	a->channels = a->channels ? a->channels : ctx->n_nics;
	if (!a->generations)
		a->generations = a->backend == SDR_BACKEND_ROOT ? ROOT_GENERATIONS : 1;
	a->recv_depth = a->recv_depth ? a->recv_depth : RECV_DEPTH;
	a->packet_lifetime_ns = a->packet_lifetime_ns ? a->packet_lifetime_ns : LIFETIME_NS;
	a->id_bits = a->id_bits ? a->id_bits : 10;
	a->offset_bits = a->offset_bits ? a->offset_bits : 18;
	if (a->backend == SDR_BACKEND_AUTO)
		a->backend = has_windows(ctx) ? SDR_BACKEND_WINDOW : SDR_BACKEND_STAGE;
}

static bool is_chunk(uint64_t chunk, uint64_t packet)
{
	return chunk >= packet && chunk <= packet * SDR_WORD && !(chunk & (chunk - 1));
}

/* Whole chunks, where offsets can count them. */
static uint64_t room_of(const struct sdr_qp_attr *a, uint64_t packet)
{
	uint64_t most = packet << a->offset_bits;
	uint64_t whole = (a->max_msg_size + a->chunk_size - 1) / a->chunk_size * a->chunk_size;

	return whole > most && a->max_msg_size <= most ? most : whole;
}

/* Windows have a key for each use of a slot: generations would guard nothing. */
static int check(const struct sdr_qp_attr *a, const struct sdr_context *ctx)
{
	uint64_t packet = sdr_mtu_bytes(least_mtu(ctx));

	if (a->offset_bits > 31 || a->packet_lifetime_ns > LIFETIME_MAX_NS)
		return -EINVAL;
	if (a->max_msg_size > packet << a->offset_bits)
		return -EMSGSIZE;
	if (!is_chunk(a->chunk_size, packet))
		return -EINVAL;
	if (a->backend > SDR_BACKEND_ROOT || a->channels > SDR_RAILS_MAX ||
	    a->channels < ctx->n_nics || a->generations > SDR_GENERATIONS_MAX || a->duplicates > 1)
		return -EINVAL;
	if (a->backend == SDR_BACKEND_WINDOW && a->generations > 1)
		return -EINVAL;
	for (uint32_t i = 0; i < ctx->n_nics; i++)
		if (ctx->nics[i].gone)
			return -ENODEV;
	return a->backend == SDR_BACKEND_WINDOW && !has_windows(ctx) ? -EOPNOTSUPP : 0;
}

/* The core for packets of so many bytes. */
static int core_attr(const struct sdr_qp *qp, uint32_t packet, struct sdr_core_attr *c)
{
	const struct sdr_qp_attr *a = &qp->attr;
	uint64_t packets = room_of(a, packet) / packet;

	if (!is_chunk(a->chunk_size, packet) || packets > UINT32_MAX)
		return -EINVAL;
	*c = (struct sdr_core_attr){
		.slots = a->max_msgs,
		.generations = a->generations,
		.id_bits = a->id_bits,
		.offset_bits = a->offset_bits,
		.chunk_shift = (uint8_t)__builtin_ctz(a->chunk_size / packet),
		.duplicates = a->duplicates,
		.packet = packet,
		.max_packets = (uint32_t)packets,
		.lifetime_ns = a->packet_lifetime_ns,
		.repeat_ns = REPEAT_NS,
	};
	return 0;
}

/* Anew when the peer's packets are smaller. */
static int make_core(struct sdr_qp *qp, uint32_t packet)
{
	struct sdr_core_attr attr;
	uint32_t chunk_words;
	int err = core_attr(qp, packet, &attr);

	if (err)
		return err;
	free(qp->words);
	free(qp->visible_words);
	qp->packet = packet;
	qp->max_packets = attr.max_packets;
	chunk_words = sdr_words((attr.max_packets >> attr.chunk_shift) + 1);
	qp->words = calloc(sdr_core_words(&attr), sizeof(*qp->words));
	qp->visible_words = calloc((size_t)attr.slots * chunk_words, sizeof(*qp->words));
	if (!qp->words || !qp->visible_words)
		return -ENOMEM;
	for (uint32_t i = 0; i < attr.slots && qp->backing.ops->came; i++)
		qp->recvs[i].visible = qp->visible_words + (size_t)i * chunk_words;
	return sdr_core_init(&qp->core, &attr, qp->slots, qp->core_sends, qp->words);
}

/* ---- what it is made of ---------------------------------------------------------------------- */

static int make_tables(struct sdr_qp *qp)
{
	uint32_t n = qp->attr.max_msgs;

	if (n & (n - 1) || n > 1u << 16)
		return -EINVAL;
	qp->slots = calloc(n, sizeof(*qp->slots));
	qp->core_sends = calloc(n, sizeof(*qp->core_sends));
	qp->sends = calloc(n, sizeof(*qp->sends));
	qp->recvs = calloc(n, sizeof(*qp->recvs));
	qp->unbound = calloc(n, sizeof(*qp->unbound));
	return qp->slots && qp->core_sends && qp->sends && qp->recvs && qp->unbound ? 0 : -ENOMEM;
}

static int make_backing(struct sdr_qp *qp)
{
	uint64_t packet = sdr_mtu_bytes(least_mtu(qp->ctx));
	static const struct sdr_slots_ops *const ops[] = { [SDR_BACKEND_WINDOW] = &sdr_slots_window,
							   [SDR_BACKEND_STAGE] = &sdr_slots_stage,
							   [SDR_BACKEND_ROOT] = &sdr_slots_root };

	qp->backing = (struct sdr_slots){
		.ops = ops[qp->attr.backend],
		.nics = qp->ctx->nics,
		.n_devices = qp->ctx->n_nics,
		.n_nics = qp->n_ways,
		.n = qp->attr.max_msgs,
		.generations = qp->attr.generations,
		/* Each slot on pages of its own. */
		.slot_size = (room_of(&qp->attr, packet) + 4095) & ~4095ull,
	};
	return qp->backing.ops->open(&qp->backing);
}

static const struct sdr_nic *nic_of(const struct sdr_qp *qp, uint32_t rail)
{
	return sdr_way_nic(qp, sdr_rail_way(qp, rail));
}

static int make_channels(struct sdr_qp *qp)
{
	uint32_t n = qp->attr.channels * qp->attr.generations;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		err = sdr_channel_open(&qp->channels[i], nic_of(qp, i % qp->attr.channels),
				       SDR_SEND_DEPTH, qp->attr.recv_depth);
		qp->n_channels += !err;
	}
	return err;
}

static int make_controls(struct sdr_qp *qp, uint32_t qkey)
{
	int err = 0;

	qp->rails.qkey = qkey;
	for (uint32_t r = 0; r < qp->attr.channels && !err; r++)
		err = sdr_control_open(&qp->rails.controls[r], nic_of(qp, r), qkey);
	return err;
}

static void qp_free(struct sdr_qp *qp)
{
	sdr_rails_join(qp);
	for (uint32_t i = 0; i < qp->n_channels; i++)
		sdr_channel_close(&qp->channels[i]);
	for (uint32_t r = 0; r < SDR_RAILS_MAX; r++)
		if (qp->rails.controls[r].qp)
			sdr_control_close(&qp->rails.controls[r]);
	if (qp->backing.priv)
		qp->backing.ops->close(&qp->backing);
	for (uint32_t i = 0; qp->sends && i < qp->attr.max_msgs; i++) {
		sdr_send_let_go(&qp->sends[i]);
		free(qp->sends[i].spans);
	}
	for (uint32_t i = 0; qp->recvs && i < qp->attr.max_msgs; i++)
		if (qp->recvs[i].holds)
			sdr_recv_let_go(&qp->recvs[i]);
	free(qp->words);
	free(qp->visible_words);
	free(qp->slots);
	free(qp->core_sends);
	free(qp->sends);
	free(qp->recvs);
	free(qp->unbound);
	free(qp);
}

static int qp_make(struct sdr_qp *qp)
{
	uint32_t random[2];
	int err;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	qp->connection = random[0];
	qp->n_ways = qp->ctx->n_nics;
	set_defaults(&qp->attr, qp->ctx);
	err = check(&qp->attr, qp->ctx);
	if (!err)
		err = make_tables(qp);
	if (!err)
		err = make_backing(qp);
	if (!err)
		err = make_core(qp, sdr_mtu_bytes(least_mtu(qp->ctx)));
	if (!err)
		err = make_channels(qp);
	/* The highest bit stands for keys that only a privileged program may use. */
	return err ? err : make_controls(qp, random[1] & 0x7fffffff);
}

static void take_key(struct sdr_qp *qp)
{
	qp->is_signed = qp->attr.mac_key != NULL;
	if (qp->is_signed)
		memcpy(qp->mac_key, qp->attr.mac_key, SDR_MAC_KEY);
	qp->attr.mac_key = NULL; /* the key stays the caller's */
}

SDR_API struct sdr_qp *sdr_qp_create(struct sdr_context *ctx, const struct sdr_qp_attr *attr)
{
	struct sdr_qp *qp = calloc(1, sizeof(*qp));
	int err;

	if (!qp)
		return NULL;
	qp->ctx = ctx;
	if (attr)
		qp->attr = *attr;
	qp->chunk_by_default = !qp->attr.chunk_size;
	take_key(qp);
	err = qp_make(qp);
	if (err) {
		qp_free(qp);
		errno = -err;
		return NULL;
	}
	qp->next = ctx->qps;
	ctx->qps = qp;
	ctx->users++;
	return qp;
}

SDR_API void sdr_qp_rate_set(struct sdr_qp *qp, uint64_t rate_bps)
{
	if (rate_bps == SDR_RATE_AUTO && qp->attr.rate_bps != SDR_RATE_AUTO)
		sdr_share_begin(qp);
	qp->attr.rate_bps = rate_bps;
}

SDR_API void sdr_qp_peer_over(struct sdr_qp *qp)
{
	qp->rails.peer_over = true;
}

SDR_API int sdr_qp_destroy(struct sdr_qp *qp)
{
	struct sdr_qp **link = &qp->ctx->qps;

	if (qp->rel)
		return -EBUSY;
	while (*link != qp)
		link = &(*link)->next;
	*link = qp->next;
	qp->ctx->users--;
	qp_free(qp);
	return 0;
}

/* ---- introduction ---------------------------------------------------------------------------- */

/* Returns a queue pair's number; 0 while its NIC is away. */
static uint32_t number_of(const struct ibv_qp *verbs)
{
	return verbs ? verbs->qp_num : 0;
}

static void describe(const struct sdr_qp *qp, struct sdr_blob *b)
{
	const struct sdr_context *ctx = qp->ctx;

	*b = (struct sdr_blob){
		.connection = qp->connection,
		.packet = sdr_mtu_bytes(least_mtu(ctx)),
		.max_msgs = qp->attr.max_msgs,
		.chunk = qp->attr.chunk_size,
		.channels = qp->attr.channels,
		.generations = qp->attr.generations,
		.qkey = qp->rails.qkey,
		.n_nics = ctx->n_nics,
		.max_msg_size = qp->attr.max_msg_size,
		.id_bits = qp->attr.id_bits,
		.offset_bits = qp->attr.offset_bits,
		.mtu = (uint8_t)least_mtu(ctx),
		.is_signed = qp->is_signed,
		.chunk_by_default = qp->chunk_by_default,
	};
	for (uint32_t i = 0; i < ctx->n_nics; i++)
		b->nics[i] = (struct sdr_peer){ .gid = ctx->nics[i].gid, .lid = ctx->nics[i].lid };
	for (uint32_t r = 0; r < qp->attr.channels; r++)
		b->control_qpn[r] = number_of(qp->rails.controls[r].qp);
	for (uint32_t i = 0; i < qp->n_channels; i++)
		b->qpn[i] = number_of(qp->channels[i].qp);
}

SDR_API int sdr_qp_info_get(struct sdr_qp *qp, void *info, size_t *len)
{
	struct sdr_blob own;

	describe(qp, &own);
	return sdr_blob_write(&own, info, len);
}

/* Else the first attribute in which they differ is told. */
static bool fits(struct sdr_qp *qp, const struct sdr_blob *own, const struct sdr_blob *other)
{
	const struct {
		const char *name;
		uint64_t own, other;
	} same[] = {
		{ "max_msg_size", own->max_msg_size, other->max_msg_size },
		{ "chunk_size", own->chunk, other->chunk },
		{ "max_msgs", own->max_msgs, other->max_msgs },
		{ "channels", own->channels, other->channels },
		{ "generations", own->generations, other->generations },
		{ "id_bits", own->id_bits, other->id_bits },
		{ "offset_bits", own->offset_bits, other->offset_bits },
		{ "a mac_key", own->is_signed, other->is_signed },
	};

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		if (same[i].own == same[i].other)
			continue;
		sdr_why(qp, "%s: %llu here, %llu there (%u and %u devices): both need the same",
			same[i].name, (unsigned long long)same[i].own,
			(unsigned long long)same[i].other, own->n_nics, other->n_nics);
		return false;
	}
	return true;
}

/* Defaults hang on an end's MTU: both take the same, as each knows what the other will take. */
static void settle_chunk(struct sdr_blob *own, struct sdr_blob *other)
{
	if (own->chunk_by_default && (!other->chunk_by_default || other->chunk > own->chunk))
		own->chunk = other->chunk;
	else if (other->chunk_by_default)
		other->chunk = own->chunk;
}

/*
 * Makes the slots anew, with a key for each way: between unequal ends each rail is a way of its
 * own. The slots' size depends on the chunk's.
 */
static int remake_backing(struct sdr_qp *qp, uint32_t ways)
{
	qp->backing.ops->close(&qp->backing);
	qp->n_ways = ways;
	return make_backing(qp);
}

/* True if a command ended so because its NIC is no more: gone, or what it answers is not heard. */
static bool is_of_dead_nic(int err)
{
	return err == -EIO || err == -ENODEV || err == -ENOLINK;
}

/* A NIC that has died since the connection was made is left like any later one; not the last. */
static int connect_rails(struct sdr_qp *qp, struct sdr_blob *other)
{
	uint32_t connected = 0;
	int err = 0;

	for (uint32_t r = 0; r < qp->attr.channels && (!err || is_of_dead_nic(err)); r++) {
		err = sdr_rail_connect(qp, r, &other->nics[r % other->n_nics], other->qpn,
				       other->control_qpn[r]);
		if (err)
			qp->rails.ways[sdr_rail_way(qp, r)].fault = "it cannot be connected";
		connected += !err;
	}
	return connected && is_of_dead_nic(err) ? 0 : err;
}

static int connect_to(struct sdr_qp *qp, const struct sdr_blob *own, struct sdr_blob *other)
{
	enum ibv_mtu mtu = own->mtu < other->mtu ? own->mtu : (enum ibv_mtu)other->mtu;
	uint32_t ways = other->n_nics != qp->ctx->n_nics ? qp->attr.channels : qp->n_ways;
	bool other_chunk = own->chunk != qp->attr.chunk_size;
	int err = 0;

	qp->attr.chunk_size = own->chunk;
	qp->rails.mtu = mtu;
	qp->rails.peer_qkey = other->qkey;
	if (ways != qp->n_ways || other_chunk)
		err = remake_backing(qp, ways);
	if (!err && (sdr_mtu_bytes(mtu) != qp->packet || other_chunk))
		err = make_core(qp, sdr_mtu_bytes(mtu));
	return err ? err : connect_rails(qp, other);
}

SDR_API int sdr_qp_connect(struct sdr_qp *qp, const void *remote, size_t len)
{
	struct sdr_blob own, other;
	int err;

	if (qp->connected || qp->error)
		return qp->connected ? -EISCONN : qp->error;
	describe(qp, &own);
	err = sdr_blob_read(&other, remote, len);
	if (!err)
		settle_chunk(&own, &other);
	if (!err && !fits(qp, &own, &other))
		err = -EPROTO;
	if (!err &&
	    !is_chunk(own.chunk,
		      sdr_mtu_bytes(own.mtu < other.mtu ? own.mtu : (enum ibv_mtu)other.mtu)))
		err = -EINVAL;
	if (err)
		return err;
	qp->error = connect_to(qp, &own, &other); /* a connection that is half made anew stays so */
	if (qp->error)
		return qp->error;
	qp->peer_connection = other.connection;
	sdr_rails_begin(qp);
	sdr_share_begin(qp);
	qp->connected = true;
	return 0;
}
