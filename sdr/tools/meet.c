/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames by a key-value store in place of a TCP connection (oob.c): each is a record that the other
 * end looks for. The server says that it is there under sdr/JOB/server, by a number that nobody has
 * used; the client answers with its own under sdr/JOB/client; all further keys have both numbers.
 * So the records that an earlier run of the job left are nobody's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "kvclient/kv.h"
#include "sdr/tools/perf.h"

enum { LEASE_MS = 600000, CALL_MS = 5000, NAP_NS = 5000000, JOB_MAX = 100 };

/* The times between two looks of an end that has other things to do. */
#define HEAR_NS 5000000ull   /* looks for a frame */
#define GONE_NS 200000000ull /* looks for the other's end */

static struct {
	struct kv *kv;
	char job[JOB_MAX + 1];
	bool client, blind; /* blind: the store was lost; what was begun goes on without it */
	uint64_t server_id, client_id;
	uint32_t sent, received;
	uint64_t hear_at, gone_at;
	uint8_t frame[KV_VALUE_MAX]; /* the next one, if it has come */
	size_t frame_size;
} m;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

static bool store_fails(void)
{
	complain("--kv: %s", kv_last_error(m.kv));
	return false;
}

/* ---- records --------------------------------------------------------------------------------- */

static int put(const char *key, const void *val, size_t len)
{
	struct kv_op op = {
		.type = KV_OP_PUT, .key = key, .val = val, .len = len, .lease_ms = LEASE_MS
	};
	int err = kv_run(m.kv, &op, 1);

	return err ? err : op.ret;
}

/* -ENOENT: not there. */
static int get(const char *key, void *buf, size_t cap, size_t *got)
{
	struct kv_op op = { .type = KV_OP_GET, .key = key, .buf = buf, .cap = cap };
	int err = kv_run(m.kv, &op, 1);

	*got = op.got;
	return err ? err : op.ret;
}

static void forget(const char *key)
{
	struct kv_op op = { .type = KV_OP_DEL, .key = key };

	(void)kv_run(m.kv, &op, 1); /* its lease ends */
}

static void key_of_end(char *key, bool client)
{
	snprintf(key, KV_KEY_MAX + 1, "sdr/%s/%s", m.job, client ? "client" : "server");
}

/* Makes a key of both numbers. what: a frame's number, or a word. */
static void key_of(char *key, bool client, const char *what)
{
	snprintf(key, KV_KEY_MAX + 1, "sdr/%s/%016llx.%016llx/%s.%s", m.job,
		 (unsigned long long)m.server_id, (unsigned long long)m.client_id,
		 client ? "client" : "server", what);
}

static void key_of_frame(char *key, bool client, uint32_t n)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", n);
	key_of(key, client, number);
}

/* ---- meeting --------------------------------------------------------------------------------- */

static bool server_meets(const struct options *o)
{
	uint64_t until = now_ns() + (uint64_t)o->wait_s * 1000000000ull, ids[2];
	char mine[KV_KEY_MAX + 1], theirs[KV_KEY_MAX + 1], key[KV_KEY_MAX + 1];
	size_t got;
	int err;

	key_of_end(mine, false);
	key_of_end(theirs, true);
	if (put(mine, &m.server_id, sizeof(m.server_id)))
		return store_fails();
	do {
		err = get(theirs, ids, sizeof(ids), &got);
		if (!err && got == sizeof(ids) && ids[0] == m.server_id)
			break;
		if (err && err != -ENOENT && err != -EMSGSIZE)
			return store_fails();
		err = -ENOENT;
		nap();
	} while (now_ns() < until && !oob_interrupted());
	forget(mine);
	if (err && oob_interrupted()) {
		complain("interrupted");
		return false;
	}
	if (err) {
		complain("no client came to job %s within %d s: start it, or give --wait", m.job,
			 o->wait_s);
		return false;
	}
	forget(theirs);
	m.client_id = ids[1];
	key_of(key, false, "here");
	return !put(key, "", 1) || store_fails();
}

/* Meets the server that is there now: an earlier one may have left its record. */
static bool client_meets(const struct options *o)
{
	uint64_t until = now_ns() + (uint64_t)o->wait_s * 1000000000ull, ids[2] = { 0 }, id;
	char mine[KV_KEY_MAX + 1], theirs[KV_KEY_MAX + 1], key[KV_KEY_MAX + 1];
	uint8_t byte;
	size_t got;
	int err;

	key_of_end(mine, true);
	key_of_end(theirs, false);
	ids[1] = m.client_id;
	for (; now_ns() < until && !oob_interrupted(); nap()) {
		err = get(theirs, &id, sizeof(id), &got);
		if (!err && got == sizeof(id) && id != ids[0]) {
			ids[0] = m.server_id = id;
			err = put(mine, ids, sizeof(ids));
		}
		if (err && err != -ENOENT && err != -EMSGSIZE)
			return store_fails();
		key_of(key, false, "here");
		if (ids[0] && !get(key, &byte, 1, &got))
			return true;
	}
	if (oob_interrupted())
		complain("interrupted");
	else
		complain("no server of job %s within %d s", m.job, o->wait_s);
	return false;
}

bool meet_open(const struct options *o)
{
	const struct kv_options options = { .timeout_ms = CALL_MS, .secret_file = o->secret };
	char err[KV_ERR_MAX] = "", prefix[KV_PREFIX_MAX];

	memset(&m, 0, sizeof(m));
	m.client = o->client;
	if (strlen(o->job) > JOB_MAX || kv_prefix(o->job, prefix, sizeof(prefix))) {
		complain("--job %s makes no sense: letters, digits and . _ : / -, at most %d",
			 o->job, JOB_MAX);
		return false;
	}
	strcpy(m.job, o->job);
	if (kv_open_with(o->kv, &options, &m.kv, err, sizeof(err))) {
		complain("--kv %s: %s", o->kv, err);
		return false;
	}
	if (getrandom(m.client ? &m.client_id : &m.server_id, sizeof(m.client_id), 0) < 0)
		return false;
	return m.client ? client_meets(o) : server_meets(o);
}

/* ---- frames ---------------------------------------------------------------------------------- */

bool meet_send(const void *data, uint32_t size)
{
	char key[KV_KEY_MAX + 1];

	key_of_frame(key, m.client, m.sent++);
	return !put(key, data, size) || store_fails();
}

/*
 * Returns 1: the next frame is here; 0: not yet; -ECONNRESET: there will be none. The end is asked
 * for first: what was said before it is there by then.
 */
static int look(void)
{
	char end[KV_KEY_MAX + 1], next[KV_KEY_MAX + 1];
	uint8_t byte;
	struct kv_op ops[2] = {
		{ .type = KV_OP_GET, .key = end, .buf = &byte, .cap = 1 },
		{ .type = KV_OP_GET, .key = next, .buf = m.frame, .cap = sizeof(m.frame) }
	};
	int err;

	if (m.frame_size)
		return 1;
	key_of(end, !m.client, "end");
	key_of_frame(next, !m.client, m.received);
	err = kv_run(m.kv, ops, 2);
	if (!err && !ops[1].ret)
		m.frame_size = ops[1].got;
	if (err || (ops[1].ret && ops[1].ret != -ENOENT))
		return err ? err : ops[1].ret;
	return m.frame_size ? 1 : ops[0].ret ? 0 : -ECONNRESET;
}

bool meet_receive(void *data, uint32_t *size, int wait_s)
{
	uint64_t until = now_ns() + (uint64_t)wait_s * 1000000000ull;
	int got;

	while (!(got = look()) && now_ns() < until && !oob_interrupted())
		nap();
	if (got <= 0 || m.frame_size > *size) {
		if (got == -ECONNRESET)
			complain("the other end has ended");
		else if (got < 0)
			store_fails();
		else if (oob_interrupted())
			complain("interrupted");
		else
			complain(got ? "the other end is no sdr_perf"
				     : "the other end says nothing");
		return false;
	}
	memcpy(data, m.frame, m.frame_size);
	*size = (uint32_t)m.frame_size;
	m.frame_size = 0;
	m.received++;
	return true;
}

bool meet_hear(void)
{
	uint64_t now = now_ns();

	if (now < m.hear_at)
		return false;
	m.hear_at = now + HEAR_NS;
	return look() != 0;
}

bool meet_gone(void)
{
	uint64_t now = now_ns();
	int got;

	if (m.blind || now < m.gone_at)
		return false;
	m.gone_at = now + GONE_NS;
	got = look();
	m.blind = got < 0 && got != -ECONNRESET;
	if (got == -ECONNRESET)
		complain("the other end has ended");
	return got == -ECONNRESET;
}

void meet_close(void)
{
	char key[KV_KEY_MAX + 1];

	key_of(key, m.client, "end");
	if (m.kv && !m.blind && m.server_id && m.client_id)
		put(key, "", 1);
	kv_close(m.kv);
	m.kv = NULL;
}
