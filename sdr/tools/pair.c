/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Device, memory and connection of one end; both ends make sure that they do the same. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kvclient/kv.h"
#include "sdr/tools/perf.h"

enum { PROTOCOL = 4 };

static uint32_t power_of_two(uint64_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static bool open_device(struct pair *p, const struct options *o)
{
	struct sdr_context_attr attr = { .gid_index = o->gid_index };

	p->ctx = sdr_context_create(o->dev, &attr);
	if (p->ctx)
		return true;
	if (errno == ENODEV)
		complain("there is no device %s: ibv_devices lists them",
			 o->dev ? o->dev : "at all");
	else if (errno == EINVAL)
		complain("%s names a device twice", o->dev);
	else if (errno == EADDRNOTAVAIL)
		complain("the port of %s has no such address: see --gid-index", o->dev);
	else if (errno == ENETDOWN)
		complain("the port of %s is not active: ibv_devinfo shows it", o->dev);
	else
		complain("%s: %s", o->dev, strerror(errno));
	return false;
}

/* Called after open_qp(), which knows how long a Write may be. */
static bool open_memory(struct pair *p, const struct options *o)
{
	p->slot = (o->size + 4095) & ~4095ull;
	p->mem = mmap(NULL, p->slot * o->inflight, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p->mem == MAP_FAILED) {
		complain("no memory for %llu Writes of %llu bytes", (unsigned long long)o->inflight,
			 (unsigned long long)o->size);
		return false;
	}
	p->mr = sdr_mr_reg(p->ctx, p->mem, p->slot * o->inflight);
	if (!p->mr)
		complain("memory cannot be registered: %s (ulimit -l shows the limit)",
			 strerror(errno));
	return p->mr;
}

/*
 * Returns the number of ids (max_msgs). An id that saw a packet twice rests for a packet's
 * lifetime: many ids keep the pipe full. Each costs memory where there are stages, and both ends
 * need as many; so the size counts, not this end's backend.
 */
static uint32_t messages(const struct options *o)
{
	uint64_t some = o->size <= 1 << 20 ? 256 : 32;

	return power_of_two(some > 4 * o->inflight ? some : 4 * o->inflight);
}

/*
 * Derives keys for two uses from the job's secret; neither tells anything about the other. false:
 * it was said why not.
 */
static bool derive(struct pair *p, const struct options *o)
{
	const struct kv_options options = { .timeout_ms = 1, .secret_file = o->secret };
	char err[KV_ERR_MAX] = "libcrypto refuses";
	struct kv *kv = NULL;
	bool ok;

	if (!o->secret)
		return true;
	ok = !kv_open_with(NULL, &options, &kv, err, sizeof(err)) &&
	     !kv_derive(kv, "sdr control", p->key) && !kv_derive(kv, "sdr greeting", p->greeting);
	kv_close(kv);
	if (!ok)
		complain("--secret %s: %s", o->secret, err);
	return ok;
}

/*
 * Returns how long a Write may take. The server's receive is there while the client still writes
 * over RC, for which it may take as long.
 */
static uint64_t timeout_of(const struct options *o)
{
	return o->against_rc && !o->client ? 2 * o->timeout_ns : o->timeout_ns;
}

static bool open_qp(struct pair *p, const struct options *o)
{
	/* The parity of a short message needs a chunk, too. */
	uint64_t least = o->chunk ? o->chunk : 64 << 10;
	struct sdr_qp_attr attr = { .max_msg_size = o->size > least ? o->size : least,
				    .chunk_size = (uint32_t)o->chunk,
				    .max_msgs = messages(o),
				    .channels = (uint32_t)o->channels,
				    .recv_depth = (uint32_t)o->depth,
				    .packet_lifetime_ns = o->lifetime_ns,
				    .duplicates = o->duplicates,
				    .rate_bps = o->rate,
				    .burst = o->burst,
				    .mac_key = o->secret ? p->key : NULL,
				    .backend = o->backend };
	struct sdr_rel_attr rel = { .scheme = o->scheme,
				    .code = o->code,
				    .k = (uint32_t)o->k,
				    .m = (uint32_t)o->m,
				    .writes = power_of_two(o->inflight),
				    .timeout_ns = timeout_of(o),
				    .rtt_ns = o->rtt_ns };

	p->qp = sdr_qp_create(p->ctx, &attr);
	if (!p->qp && errno == EOPNOTSUPP && o->backend == SDR_BACKEND_ROOT)
		complain("%s has no indirect keys, which mlx5 alone has: use --backend window or "
			 "stage",
			 o->dev);
	else if (!p->qp && errno == EOPNOTSUPP)
		complain("%s has no memory windows: use --backend stage", o->dev);
	else if (!p->qp && errno == EMSGSIZE)
		complain("a Write of %llu bytes is too long: it has more than 262,144 packets",
			 (unsigned long long)o->size);
	else if (!p->qp && errno == EINVAL && o->chunk)
		complain("--chunk %llu: it is a power of two of packets of %s, at most 64",
			 (unsigned long long)o->chunk, o->dev);
	else if (!p->qp)
		complain("no connection: %s", strerror(errno));
	if (!p->qp || o->sdk)
		return p->qp;
	p->rel = sdr_rel_create(p->qp, &rel);
	if (!p->rel)
		complain("no Writes with k %llu and m %llu: %s", (unsigned long long)o->k,
			 (unsigned long long)o->m, strerror(errno));
	return p->rel;
}

/* Says what both must have been started with, in words that can be shown. */
static void describe(const struct pair *p, const struct options *o, char *text, size_t size)
{
	char secret[32] = "";

	if (o->secret)
		snprintf(secret, sizeof(secret), ", secret %02x%02x%02x%02x", p->greeting[0],
			 p->greeting[1], p->greeting[2], p->greeting[3]);
	snprintf(
		text, size,
		"size %llu, n %llu, chunk %llu, scheme %s, code %s, k %llu, m %llu, inflight %llu, "
		"channels %llu%s%s%s%s%s",
		(unsigned long long)o->size, (unsigned long long)o->n, (unsigned long long)o->chunk,
		sdr_scheme_name(o->scheme), o->code == SDR_CODE_XOR ? "xor" : "mds",
		(unsigned long long)o->k, (unsigned long long)o->m, (unsigned long long)o->inflight,
		(unsigned long long)o->channels,
		o->backend == SDR_BACKEND_ROOT ? ", root" : "", /* of other generations */
		o->sdk ? ", sdk" : "", o->verify ? ", verify" : "",
		o->against_rc ? ", against rc" : "", secret);
}

static uint64_t channels_in(const char *text)
{
	const char *at = strstr(text, "channels ");

	return at ? strtoull(at + strlen("channels "), NULL, 10) : 0;
}

static bool agree(const struct pair *p, const struct options *o)
{
	char mine[512], theirs[512];
	uint32_t size = sizeof(theirs) - 1, n;

	n = (uint32_t)snprintf(mine, sizeof(mine), "sdr_perf %d: ", PROTOCOL);
	describe(p, o, mine + n, sizeof(mine) - n);
	if (!oob_send(mine, (uint32_t)strlen(mine)) || !oob_receive(theirs, &size, o->wait_s))
		return false;
	theirs[size] = 0;
	if (strncmp(theirs, mine, n)) {
		complain("the other end is another version: \"%.40s\"", theirs);
		return false;
	}
	if (!strcmp(mine, theirs))
		return true;
	complain("the ends differ:\n  here:  %s\n  there: %s", mine + n, theirs + n);
	if (channels_in(theirs) != o->channels)
		complain("of unequally many devices: give both ends --channels %llu",
			 (unsigned long long)(channels_in(theirs) > o->channels
						      ? channels_in(theirs)
						      : o->channels));
	return false;
}

static bool introduce(struct pair *p, const struct options *o)
{
	uint8_t mine[SDR_QP_INFO_MAX], theirs[SDR_QP_INFO_MAX];
	uint32_t size = sizeof(theirs);
	size_t len = sizeof(mine);
	int err = sdr_qp_info_get(p->qp, mine, &len);

	if (err)
		complain("no connection: %s", strerror(-err));
	if (err || !oob_send(mine, (uint32_t)len) || !oob_receive(theirs, &size, o->wait_s))
		return false;
	err = sdr_qp_connect(p->qp, theirs, size);
	if (err == -EPROTONOSUPPORT)
		complain("the other end has another version of libsdr");
	else if (err)
		complain("no connection to the other end: %s",
			 err == -EPROTO ? sdr_qp_why(p->qp) : why(err));
	/* Nobody sends before both are connected. */
	size = 1;
	return !err && oob_send(mine, 1) && oob_receive(theirs, &size, o->wait_s);
}

bool pair_open(struct pair *p, const struct options *o)
{
	memset(p, 0, sizeof(*p));
	return derive(p, o) && open_device(p, o) && open_qp(p, o) && open_memory(p, o) &&
	       oob_open(o) && agree(p, o) && introduce(p, o);
}

void pair_close(struct pair *p)
{
	oob_close();
	if (p->rel)
		sdr_rel_destroy(p->rel);
	if (p->qp)
		sdr_qp_destroy(p->qp);
	if (p->mr)
		sdr_mr_dereg(p->mr);
	if (p->ctx)
		sdr_context_destroy(p->ctx);
}

uint8_t *pair_buffer(const struct pair *p, uint64_t n, const struct options *o)
{
	return p->mem + n % o->inflight * p->slot;
}

/* Each eight bytes tell their place and their message. */
static uint64_t word_at(uint64_t n, uint64_t i)
{
	return (n + 1) * 0x9e3779b97f4a7c15ull ^ (i + 1) * 0xff51afd7ed558ccdull;
}

void pattern_fill(uint8_t *at, uint64_t size, uint64_t n)
{
	uint64_t word, i;

	for (i = 0; i + 8 <= size; i += 8) {
		word = word_at(n, i);
		memcpy(at + i, &word, 8);
	}
	word = word_at(n, i);
	memcpy(at + i, &word, size - i);
}

uint64_t pattern_check(const uint8_t *at, uint64_t size, uint64_t n)
{
	uint64_t word, here, i;

	for (i = 0; i + 8 <= size; i += 8) {
		word = word_at(n, i);
		memcpy(&here, at + i, 8);
		if (here != word)
			return i;
	}
	word = word_at(n, i);
	return memcmp(at + i, &word, size - i) ? i : size;
}

/*
 * Parts from the other end. Until that is done, too, this end repeats what the other does not know
 * yet, and answers. The server is done before the client has written the last of its Writes over
 * RC.
 */
static bool part(struct pair *p, const struct options *o)
{
	uint64_t until = now_ns() + o->wait_s * 1000000000ull + (o->against_rc ? o->timeout_ns : 0);
	uint32_t size = 1;
	char word = 'd';

	if (!oob_send(&word, 1))
		return false;
	while (!oob_hear() && now_ns() < until && !oob_interrupted())
		sdr_poll(p->ctx);
	return oob_receive(&word, &size, 1);
}

bool pair_finish(struct pair *p, const struct options *o, struct tally *t, bool good)
{
	struct sdr_stats stats;

	good = good && part(p, o);
	sdr_qp_stats(p->qp, &stats);
	t->packets = o->client ? stats.sent : stats.received;
	t->nics_lost = stats.nics_lost;
	t->nics_joined = stats.nics_joined;
	if (!good && *sdr_qp_why(p->qp))
		complain("%llu times a device of this end was lost; what failed last: %s",
			 (unsigned long long)t->nics_lost, sdr_qp_why(p->qp));
	if (good)
		report_print(o, p, t);
	return good;
}
