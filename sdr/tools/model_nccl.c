/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sdr_perf model --nccl: is the plugin for NCCL worth it on a link? For each size of a message the
 * time over the plugin's SDR beside that over a reliable connection (RC), of one message alone and
 * of eight under way, as NCCL has them.
 *
 * RC goes back for each loss: all that is under way is sent again, a round trip later. After the
 * last packet of a lonely message nothing follows that would show its loss: a timer of two round
 * trips does. With eight under way the next message's packets show it.
 */
#include <math.h>
#include <stdio.h>

#include "sdr/tools/perf.h"

#define TAIL	   .99 /* the plugin's, as the three below (sdr/nccl) */
#define PARITY_MAX 262144.0
#define MAX_SENT   1.3
#define SHORT_SENT 2.0
#define WORTH	   1.05 /* less is no reason to change anything */

#define WHOLE_RTTS 1.25 /* Writes that leave in so many round trips are coded as a whole */

enum { WIDE = 128, UNDER_WAY = 8, SHORT_PARTS = 16, SCHEMES = 8, SIZES = 4 };

struct row {
	uint64_t size;
	struct sdr_scheme scheme;
	double sdr_ms, rc_ms;		/* one message */
	double sdr_each_ms, rc_each_ms; /* one of many, eight under way */
};

static double packet_s(const struct sdr_link *link)
{
	return link->packet * 8.0 / link->rate_bps;
}

/* The scheme that the plugin takes, once it knows the link. */
static bool choose(const struct sdr_link *link, uint64_t size, struct sdr_scheme *scheme)
{
	static const struct {
		enum sdr_scheme_kind kind;
		uint32_t k, m;
	} all[SCHEMES] = { { SDR_SCHEME_NACK, 0, 0 },	   { SDR_SCHEME_HYBRID, WIDE, 2 },
			   { SDR_SCHEME_HYBRID, WIDE, 4 }, { SDR_SCHEME_HYBRID, WIDE, 6 },
			   { SDR_SCHEME_HYBRID, 32, 2 },   { SDR_SCHEME_HYBRID, 32, 4 },
			   { SDR_SCHEME_HYBRID, 32, 8 },   { SDR_SCHEME_EC, 32, 8 } };
	struct sdr_scheme schemes[SCHEMES];
	double time = ceil((double)size / link->packet) * packet_s(link);
	double most = time < link->rtt_s / SHORT_PARTS ? SHORT_SENT : MAX_SENT;
	uint32_t n = 0;
	int best;

	for (uint32_t i = 0; i < SCHEMES; i++) {
		if (all[i].k == WIDE && time > WHOLE_RTTS * link->rtt_s)
			continue;
		schemes[n] = sdr_scheme_make(all[i].kind, link->packet, all[i].k, all[i].m);
		schemes[n].serial = true;
		schemes[n++].whole = false;
	}
	best = sdr_model_choose(link, schemes, n, size, TAIL,
				fmin(most, 1 + PARITY_MAX / (double)size));
	if (best >= 0)
		*scheme = schemes[best];
	return best >= 0;
}

/* Messages of which eight are under way wait for the link, or for each other. */
static double each(double on_link_s, double alone_s)
{
	return fmax(on_link_s, alone_s / UNDER_WAY);
}

static bool fill(const struct sdr_link *link, uint64_t size, struct row *row)
{
	double packets = ceil((double)size / link->packet), p = link->loss;
	double time = packets * packet_s(link), back = link->rtt_s + packet_s(link);
	double losses = packets * p / (1 - p), sdr;

	row->size = size;
	if (!choose(link, size, &row->scheme))
		return false;
	sdr = sdr_model_mean(link, &row->scheme, size);
	row->sdr_ms = sdr * 1e3;
	row->sdr_each_ms = each(time * sdr_model_sent(link, &row->scheme, size), sdr) * 1e3;
	/* The last packet's loss waits for the timer; the others' for the answer. */
	row->rc_ms = (time + link->rtt_s + losses * back + p / (1 - p) * link->rtt_s) * 1e3;
	row->rc_each_ms = (each(time, time + link->rtt_s) + losses * back) * 1e3;
	return true;
}

static void name(const struct sdr_scheme *s, char *text, size_t size)
{
	if (s->kind == SDR_SCHEME_NACK)
		snprintf(text, size, "nack");
	else
		snprintf(text, size, "%s(%u,%u)", sdr_scheme_name((int)s->kind), s->k, s->m);
}

static void print_table(const struct row *rows, uint32_t n)
{
	bool worth = false;
	char text[32];

	printf("%10s %-13s %10s %10s %7s %10s %10s %7s\n", "bytes", "scheme", "SDR ms", "RC ms",
	       "times", "SDR, of 8", "RC, of 8", "times");
	for (uint32_t i = 0; i < n; i++) {
		const struct row *r = &rows[i];

		name(&r->scheme, text, sizeof(text));
		printf("%10llu %-13s %10.3f %10.3f %7.2f %10.3f %10.3f %7.2f\n",
		       (unsigned long long)r->size, text, r->sdr_ms, r->rc_ms, r->rc_ms / r->sdr_ms,
		       r->sdr_each_ms, r->rc_each_ms, r->rc_each_ms / r->sdr_each_ms);
		worth |= r->rc_each_ms > WORTH * r->sdr_each_ms || r->rc_ms > WORTH * r->sdr_ms;
	}
	puts(worth ? "worth it: where times is above 1, RC takes so many times as long"
		   : "not worth it: RC is as fast on this link");
}

static void print_json(const struct row *rows, uint32_t n)
{
	char text[32];

	printf("{\"rows\": [");
	for (uint32_t i = 0; i < n; i++) {
		const struct row *r = &rows[i];

		name(&r->scheme, text, sizeof(text));
		printf("%s{\"size\": %llu, \"scheme\": \"%s\", \"sdr_ms\": %.6f, \"rc_ms\": %.6f, "
		       "\"sdr_each_ms\": %.6f, \"rc_each_ms\": %.6f}",
		       i ? ", " : "", (unsigned long long)r->size, text, r->sdr_ms, r->rc_ms,
		       r->sdr_each_ms, r->rc_each_ms);
	}
	puts("]}");
}

int run_model_nccl(const struct options *o)
{
	const struct sdr_link link = { (double)o->rate, (double)o->rtt_ns / 1e9, o->loss,
				       (uint32_t)o->mtu };
	uint64_t sizes[SIZES] = { 8 << 10, 64 << 10, 512 << 10, 4 << 20 };
	uint32_t n = o->own_size ? 1 : SIZES;
	struct row rows[SIZES];

	if (o->own_size)
		sizes[0] = o->size;
	for (uint32_t i = 0; i < n; i++)
		if (!fill(&link, sizes[i], &rows[i])) {
			complain("so much is lost of messages of %llu bytes that no model has a "
				 "time for them",
				 (unsigned long long)sizes[i]);
			return 2;
		}
	if (o->json)
		print_json(rows, n);
	else
		print_table(rows, n);
	return 0;
}
