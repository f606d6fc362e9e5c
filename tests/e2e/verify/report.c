// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "lane.h"
#include "qp.h"
#include "report.h"
#include "verify.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const reason_names[] = {
#define X(name) #name,
	FAIL_REASONS(X)
#undef X
};

static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;

static void summary_qp(const struct vqp *q, bool first, FILE *out)
{
	fprintf(out,
		"%s{\"qp\":%d,\"qpn\":%u,\"pattern\":\"%s\",\"lane\":%d,\"wr_api\":%s,"
		"\"sent\":%" PRIu64 ",\"completed\":%" PRIu64 ",\"received\":%" PRIu64
		",\"failed\":%s,\"status\":\"%s\",\"rewinds\":%" PRIu64 "}",
		first ? "" : ",", q->index, q->local.qpn, q->ops ? q->ops->name : "",
		q->lane ? q->lane->index : -1, q->wr_api ? "true" : "false", q->tx_next, q->tx_done,
		q->rx_next, q->failed ? "true" : "false", ibv_wc_status_str(q->first_status),
		q->rewinds);
}

static void print_text(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(*text == '"' || *text == '\\' || *text < ' ' ? '\'' : *text, out);
}

/* A line of its own, also while another thread says how far it has come. */
void verify_summary(const struct verify *v, enum fail_reason reason, const char *text)
{
	flockfile(stdout);
	printf("SUMMARY {\"role\":\"%s\",\"seed\":%" PRIu64 ",\"result\":\"%s\",\"reason\":\"%s\",",
	       v->opt.server ? "server" : "client", v->opt.seed, reason ? "fail" : "ok",
	       reason_names[reason]);
	printf("\"text\":\"");
	print_text(stdout, text);
	printf("\",\"async_events\":%" PRIu64 ",\"teardown_errors\":%" PRIu64 ",\"qps\":[",
	       atomic_load(&v->async_events), v->teardown_errors);
	for (int i = 0; i < v->opt.qps; i++)
		summary_qp(&v->qps[i], !i, stdout);
	printf("]}\n");
	fflush(stdout);
	funlockfile(stdout);
}

void verify_progress(const struct verify *v)
{
	flockfile(stdout);
	printf("PROGRESS");
	for (int i = 0; i < v->opt.qps; i++)
		printf(" %" PRIu64 ":%" PRIu64 ":%d", v->qps[i].tx_done, v->qps[i].rx_next,
		       v->qps[i].failed);
	printf("\n");
	fflush(stdout);
	funlockfile(stdout);
}

/* What the allocators hold and what is resident, in KiB. */
void verify_memory(void)
{
	struct mallinfo2 info = mallinfo2();
	long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	printf("MEMORY %zu %ld\n", (info.uordblks + info.hblkhd) / 1024,
	       resident * (sysconf(_SC_PAGESIZE) / 1024));
	fflush(stdout);
}

void verify_fail(const struct vqp *q, enum fail_reason reason, const char *fmt, ...)
{
	const struct verify *v = verify_instance;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&fail_lock);
	fprintf(stderr, "FAIL %s seed=%" PRIu64 " %s", reason_names[reason], v->opt.seed,
		v->opt.server ? "server" : "client");
	if (q)
		fprintf(stderr, " qp=%d (%s, lane %d, qpn %u)", q->index, q->ops->name,
			q->lane ? q->lane->index : -1, q->local.qpn);
	fprintf(stderr, ": %s\n", text);
	verify_summary(v, reason, text);
	_exit(1);
}
