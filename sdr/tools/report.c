/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What was measured. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sdr/tools/perf.h"

void complain(const char *format, ...)
{
	va_list args;

	fputs("sdr_perf: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

const char *why(int err)
{
	switch (-err) {
	case ETIMEDOUT: return "it was not over in its time: --timeout, or the other end is gone";
	case ECANCELED: return "the other end has given its receive up";
	case EPROTO: return "the other end was made with other attributes";
	case EBADMSG: return "what the other end told is damaged";
	case EIO: return "the device reports an error: the link, or the other end, is lost";
	default: return strerror(-err);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double quantile_ms(const struct tally *t, double q)
{
	uint64_t i = (uint64_t)(q * (double)t->n);

	return t->n ? (double)t->ns[i < t->n ? i : t->n - 1] / 1e6 : 0;
}

static double mean_ms(const struct tally *t)
{
	double sum = 0;

	for (uint64_t i = 0; i < t->n; i++)
		sum += (double)t->ns[i];
	return t->n ? sum / (double)t->n / 1e6 : 0;
}

static void print_schemes(const struct tally *t)
{
	for (int i = 0; i < 4; i++)
		if (t->of_scheme[i])
			printf(" %s %llu", sdr_scheme_name(i), (unsigned long long)t->of_scheme[i]);
}

static void print_json(const struct options *o, const struct pair *p, const struct tally *t,
		       double gbps)
{
	printf("{\"backend\": \"%s\", \"size\": %llu, \"writes\": %llu, \"failed\": %llu, "
	       "\"wrong\": %llu, "
	       "\"missing\": %llu, \"mean_ms\": %.4f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, "
	       "\"p999_ms\": %.4f, \"gbps\": %.4f, \"chunks\": %llu, \"sent\": %llu, \"resent\": "
	       "%llu, "
	       "\"decoded\": %llu, \"packets\": %llu, \"nics_lost\": %llu, "
	       "\"nics_joined\": %llu, \"fallbacks\": %llu}\n",
	       sdr_backend_name(sdr_qp_backend(p->qp)), (unsigned long long)o->size,
	       (unsigned long long)t->n, (unsigned long long)t->failed,
	       (unsigned long long)t->wrong, (unsigned long long)t->missing, mean_ms(t),
	       quantile_ms(t, .5), quantile_ms(t, .99), quantile_ms(t, .999), gbps,
	       (unsigned long long)t->chunks, (unsigned long long)t->sent,
	       (unsigned long long)t->resent, (unsigned long long)t->decoded,
	       (unsigned long long)t->packets, (unsigned long long)t->nics_lost,
	       (unsigned long long)t->nics_joined, (unsigned long long)t->fallbacks);
}

/*
 * Returns the seconds of the Writes. Where Writes over RC take turns with them only their own time
 * counts, which the server does not know: 0.
 */
static double seconds_of(const struct options *o, const struct tally *t)
{
	if (o->against_rc && !o->client)
		return 0;
	return o->against_rc ? mean_ms(t) * (double)t->n / 1e3 : (double)(t->end - t->begin) / 1e9;
}

static double gbps_of(const struct options *o, const struct tally *t)
{
	double seconds = seconds_of(o, t);

	return seconds > 0 ? (double)t->n * (double)o->size * 8 / seconds / 1e9 : 0;
}

void report_print(const struct options *o, const struct pair *p, struct tally *t)
{
	double seconds = seconds_of(o, t), gbps = gbps_of(o, t);

	qsort(t->ns, t->n, sizeof(*t->ns), by_value);
	if (o->json) {
		print_json(o, p, t, gbps);
		return;
	}
	printf("%llu of %llu bytes over %s\n", (unsigned long long)t->n,
	       (unsigned long long)o->size, sdr_backend_name(sdr_qp_backend(p->qp)));
	if (o->against_rc && !o->client) /* the server waits for both, and knows no times */
		printf("  %llu packets\n", (unsigned long long)t->packets);
	else
		printf("  goodput %.3f Gbit/s, %llu packets, %.0f packets/s\n", gbps,
		       (unsigned long long)t->packets,
		       seconds > 0 ? (double)t->packets / seconds : 0);
	if (t->n && o->client)
		printf("  time mean %.3f ms, p50 %.3f, p99 %.3f, p99.9 %.3f\n", mean_ms(t),
		       quantile_ms(t, .5), quantile_ms(t, .99), quantile_ms(t, .999));
	if (t->chunks && t->sent) {
		printf("  sent/needed %.4f, %llu chunks again in %llu Writes; schemes:",
		       (double)t->sent / (double)t->chunks, (unsigned long long)t->resent,
		       (unsigned long long)t->fallbacks);
		print_schemes(t);
		putchar('\n');
	}
	if (t->nics_lost)
		printf("  %llu devices of this end were lost on the way\n",
		       (unsigned long long)t->nics_lost);
	if (t->nics_joined)
		printf("  %llu devices, of either end, came back\n",
		       (unsigned long long)t->nics_joined);
	if (!o->client)
		printf("  decoded %llu chunks, missing %llu, wrong %llu\n",
		       (unsigned long long)t->decoded, (unsigned long long)t->missing,
		       (unsigned long long)t->wrong);
}

void report_against(const struct options *o, struct tally *sdr, struct tally *rc)
{
	double ratio = mean_ms(sdr) > 0 ? mean_ms(rc) / mean_ms(sdr) : 0;

	qsort(rc->ns, rc->n, sizeof(*rc->ns), by_value);
	if (o->json)
		printf("{\"against\": \"rc\", \"sdr_ms\": %.4f, \"rc_ms\": %.4f, \"rc_p50_ms\": "
		       "%.4f, "
		       "\"rc_p99_ms\": %.4f, \"rc_p999_ms\": %.4f, \"sdr_gbps\": %.4f, "
		       "\"rc_gbps\": %.4f, \"ratio\": %.4f}\n",
		       mean_ms(sdr), mean_ms(rc), quantile_ms(rc, .5), quantile_ms(rc, .99),
		       quantile_ms(rc, .999), gbps_of(o, sdr), gbps_of(o, rc), ratio);
	else
		printf("against RC: goodput %.3f Gbit/s, time mean %.3f ms, p50 %.3f, p99 %.3f, "
		       "p99.9 %.3f; RC takes %.3f times as long\n",
		       gbps_of(o, rc), mean_ms(rc), quantile_ms(rc, .5), quantile_ms(rc, .99),
		       quantile_ms(rc, .999), ratio);
}
