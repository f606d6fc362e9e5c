/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Figures: what moved, when, and what became of it. Written at exit where SHIFT_STATS says. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "shiftlib/base/list.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/level.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/conn/told/stats.h"
#include "shiftlib/conn/watch/degraded.h"
#include "shiftlib/core/core.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/report/metrics.h"

#define STATS_MOVES_MAX 4096 /* and as many ended connections: what comes then is not recorded */

static struct {
	struct list_node moves, ended;
	uint32_t n_moves, n_ended;
} stats;

static struct sh_move *stats_move_begin(struct sh_qp *qp, enum sc_reason reason)
{
	struct sh_move *move = stats.n_moves < STATS_MOVES_MAX ? calloc(1, sizeof(*move)) : NULL;
	uint64_t error_ns = atomic_exchange(&qp->mailbox.error_ns, 0);

	if (!move)
		return NULL;
	stats.n_moves++;
	move->qpn = qp->qp->qp_num;
	move->reason = sc_reason_name(reason ? reason : qp->core.reason);
	memcpy(move->from, qp->active->nic->name, sizeof(move->from));
	if (qp->standby)
		memcpy(move->to, qp->standby->nic->name, sizeof(move->to));
	move->ordered = qp->fence.number && !error_ns;
	if (move->ordered)
		error_ns = qp->fence.since;
	move->error_ns = error_ns ? error_ns : sh_now_ns();
	atomic_store(&qp->mailbox.progress_ns, 0);
	list_add_tail(&stats.moves, &move->link);
	return move;
}

static void stats_begins(struct sh_qp *qp, enum sc_reason reason)
{
	const struct sh_move *move = qp->stats.move;

	if (!move || move->settled_ns || move->ended)
		qp->stats.move = stats_move_begin(qp, reason);
}

static void stats_count(struct sh_qp *qp, const struct sp_settled *settled)
{
	struct sh_nic *left = qp->active->nic;

	qp->stats.totals.moves++;
	qp->stats.totals.resubmitted += settled->resent;
	qp->stats.totals.resent_bytes += settled->resent_bytes;
	qp->stats.totals.settled += settled->delivered;
	if (!left->drained)
		return;
	left->left.moved++;
	left->left.resubmitted += settled->resent;
	left->left.settled += settled->delivered;
}

static void stats_settled(struct sh_qp *qp, const struct sh_carrier *to,
			  const struct sp_settled *settled)
{
	struct sh_move *move = qp->stats.move;
	uint64_t now = sh_now_ns();

	stats_count(qp, settled);
	if (!move)
		return;
	memcpy(move->to, to->nic->name, sizeof(move->to));
	move->path = to->path;
	move->settled_ns = now;
	move->settled = settled->delivered;
	move->resubmitted = settled->resent;
	move->published = settled->published;
	if (settled->delivered && !move->first_completion_ns)
		move->first_completion_ns = now;
	sh_log(SH_LOG_INFO,
	       "QP 0x%06x moved from %s to %s (%s): %u requests sent again, %u settled, %u that "
	       "had waited",
	       qp->qp->qp_num, move->from, move->to, move->reason, settled->resent,
	       settled->delivered, settled->published);
}

static void stats_progressed(struct sh_qp *qp)
{
	if (qp->stats.move && !qp->stats.move->first_completion_ns)
		qp->stats.move->first_completion_ns = atomic_load(&qp->mailbox.progress_ns);
}

/* Counts the connection in its NIC's `away`. */
static void stats_path(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	struct sh_nic *nic = qp->ctx ? qp->ctx->nic : NULL;
	uint64_t now = sh_now_ns();

	if (!nic || qp->stats.away_path == path)
		return;
	if (qp->stats.away_path)
		sh_away_change(&nic->away[qp->stats.away_path], -1, now);
	if (path)
		sh_away_change(&nic->away[path], 1, now);
	qp->stats.away_path = path;
	sh_degraded_changed();
}

/* Path 0 before the move has settled: errors end it. */
static void stats_carried(struct sh_qp *qp, uint8_t path) SH_LOCKED
{
	if (!path && qp->stats.move && !qp->stats.move->settled_ns)
		qp->stats.move->ended = true;
	stats_path(qp, path);
}

static void stats_leaves(struct sh_qp *qp) SH_LOCKED
{
	stats_path(qp, 0);
}

static void stats_forget(struct sh_qp *qp)
{
	qp->stats.move = NULL;
}

static void stats_move(FILE *file, const struct sh_move *move, const char *separator)
{
	uint64_t end = move->first_completion_ns, tenths = (end - move->error_ns) / 100;

	fprintf(file,
		"%s\n  {\"conn\": %u, \"reason\": \"%s\", \"from\": \"%s\", \"to\": \"%s\", "
		"\"error_ns\": %llu, \"settled_ns\": %llu, \"first_completion_ns\": %llu, ",
		separator, move->qpn, move->reason, move->from, move->to,
		(unsigned long long)move->error_ns, (unsigned long long)move->settled_ns,
		(unsigned long long)end);
	if (end > move->error_ns)
		fprintf(file, "\"fallback_us\": %llu.%llu, ", (unsigned long long)tenths / 10,
			(unsigned long long)tenths % 10);
	else
		fprintf(file, "\"fallback_us\": null, ");
	fprintf(file,
		"\"resubmitted_wrs\": %u, \"settled_wrs\": %u, \"published_wrs\": %u, "
		"\"path\": %u, \"ordered\": %s, \"ended\": %s}",
		move->resubmitted, move->settled, move->published, move->path,
		move->ordered ? "true" : "false", move->ended ? "true" : "false");
}

static void stats_connection(FILE *file, const struct sh_connection *conn, const char *separator)
{
	fprintf(file, "%s\n  {\"qpn\": %u, \"level\": \"%s\", \"reason\": \"%s\"}", separator,
		conn->qpn, sh_level_name(conn->level), conn->why ? conn->why : "");
}

static void stats_print(FILE *file)
{
	const char *separator = "";
	struct sh_connection *conn;
	struct sh_move *move;

	fprintf(file, "{\"pid\": %d, \"instance\": \"%016llx\", \"moves\": [", (int)getpid(),
		(unsigned long long)sh.instance);
	list_for_each (&stats.moves, move, struct sh_move, link) {
		stats_move(file, move, separator);
		separator = ",";
	}
	fprintf(file, "],\n \"connections\": [");
	separator = "";
	list_for_each (&stats.ended, conn, struct sh_connection, link) {
		stats_connection(file, conn, separator);
		separator = ",";
	}
	fprintf(file, "]}\n");
}

/* Keeps what a QP was when it went; while it lives, its own fields say so. */
void sh_stats_keep(const struct sh_qp *qp)
{
	struct sh_connection *conn;

	if (!sh.config.stats || qp->init.qp_type != IBV_QPT_RC || stats.n_ended >= STATS_MOVES_MAX)
		return;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return;
	*conn = (struct sh_connection){ .qpn = qp->qp->qp_num, .level = qp->level, .why = qp->why };
	list_add_tail(&stats.ended, &conn->link);
	stats.n_ended++;
}

void sh_stats_write(void)
{
	char path[4096];
	struct sh_qp *qp;
	FILE *file;
	int fd;

	if (!sh.config.stats || !sh_nics.known)
		return;
	list_for_each (&sh_conns.qps, qp, struct sh_qp, link)
		sh_stats_keep(qp);
	snprintf(path, sizeof(path), "%s.%d.json", sh.config.stats, (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		sh_log(SH_LOG_ERROR, "SHIFT_STATS: %s: %s", path, strerror(errno));
		return;
	}
	stats_print(file);
	if (fclose(file))
		sh_log(SH_LOG_ERROR, "SHIFT_STATS: %s: %s", path, strerror(errno));
}

static void stats_reset(void)
{
	memset(&stats, 0, sizeof(stats));
	list_init(&stats.moves);
	list_init(&stats.ended);
}

const struct sh_module sh_stats_module = { .name = "stats", .reset = stats_reset };

const struct sh_conn_part sh_stats_part = {
	.name = "figures",
	.life = { .reset = stats_forget, .leaves = stats_leaves },
	.move = { .begins = stats_begins, .carried = stats_carried, .settled = stats_settled },
	.news.progressed = stats_progressed,
};
