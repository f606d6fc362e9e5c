#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Breaks one rule of the ledger engine at a time, in a copy of its source, and runs the random test,
which must notice. Usage: mutants.py BUILD [--only WORD] [--rounds N] [--seed N]. Ends 0 if all were noticed.
mutants.py --apply: only sees whether each edit still finds its place, which takes no time."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
LIMIT = 180  # seconds: a mutant that hangs is noticed too

# what, file, text, instead; the text must be there once
MUTANTS = (
    ("position one late", "errors.c",
     "			return;\n	led_advance(qp, n);\n", "			return;\n	led_advance(qp, n + 1);\n"),
    ("position is that of the last error", "errors.c",
     "	if (c->sq_err)\n		return;\n", ""),
    ("a completion that is missing is passed over", "errors.c",
     "		if (led_completes(qp, i) || (*led_mark(qp, i) & LED_MARK_DELIVERED))\n			return;\n", "		;\n"),
    ("an error goes to the application while guarded", "errors.c",
     "(cls != SP_ERROR_APPLICATION && atomic_load(&qp->guard))", "false"),
    ("wr_id of another slot", "cq.c",
     "	wc->wr_id = led_slot(qp, n)->own.wr_id;\n	signaled", "	wc->wr_id = led_slot(qp, n + 1)->own.wr_id;\n	signaled"),
    ("unsignaled ones are not counted", "cq.c",
     "	led_advance(qp, n + 1);\n	return led_likely(signaled);",
     "	led_advance(qp, led_tail(qp) + 1);\n	return led_likely(signaled);"),
    ("a slot is free before its completion", "cq.c",
     "	led_advance(qp, n + 1);\n	return led_likely(signaled);",
     "	led_advance(qp, n + 1 + (led_pub(qp) != n + 1));\n	return led_likely(signaled);"),
    ("the completion of the engine's own request is shown", "cq.c",
     "				led_advance(qp, hidden->n);\n		}\n		return false;",
     "				led_advance(qp, hidden->n);\n		}\n		return true;"),
    ("number of the carrier's queue pair", "cq.c", "	wc->qp_num = c->app_qpn;\n	if", "	if"),
    ("number of the carrier's queue pair, of many", "cq.c", "		wc->qp_num = c->app_qpn;\n", "		;\n"),
    ("many completions free one too many", "cq.c",
     "((number - tail) & qp->sq.mask) + 1,", "((number - tail) & qp->sq.mask) + 2,"),
    ("completions of a sealed carrier count", "cq.c",
     "	if (attn & (send ? LED_ATTN_SQ_SEALED : LED_ATTN_RQ_SEALED)) {", "	if (false) {"),
    ("who arms does not see the rings of other NICs", "cq.c",
     "	if (led_unlikely(atomic_load(&cq->slow_to_arm)))", "	if (false)"),
    ("a ring of another NIC is not polled", "cq.c", "		more |= r->live != 0;", "		;"),
    ("one more than there is room for", "send.c",
     "head - tail < most ? tail + most : head;", "head - tail < most ? tail + most + 1 : head;"),
    ("bad_wr is the next one", "send.c",
     "		*qp->sq.bad = w.wr;\n", "		*qp->sq.bad = w.wr->next ? w.wr->next : w.wr;\n"),
    ("inline data stays in the application's memory", "send.c",
     "	if ((wr->send_flags & IBV_SEND_INLINE) && wr->num_sge)\n		err = put_inline(&qp->sq, slot, wr);\n	else\n", ""),
    ("short inline data stay in the application's memory", "send.c",
     "	led_copy_short(copy, (const uint8_t *)(uintptr_t)wr->sg_list->addr, length);\n", ""),
    ("one request alone does not wait", "send.c",
     "	return led_unlikely(qp->tx_mode || qp->sq.head == qp->sq.limit);",
     "	return led_unlikely(qp->sq.head == qp->sq.limit);"),
    ("one request alone is not counted", "send.c",
     "	qp->sq.two_sided += is_two_sided[wr->opcode];\n	qp->sq.head++;", "	qp->sq.head++;"),
    ("ibv_wr_complete tells an error of what runs in part", "send.c",
     "(whole ? took == 0 : took >= 0)", "took >= 0"),
    ("a chain is posted with one too many", "send.c",
     "	last->wr.next = NULL;\n	err = qp->post", "	err = qp->post"),
    ("a refused list stays written", "wr.c",
     "	if (led_unlikely(err))\n		led_unwrite(qp, qp->b.n);\n	else\n		err", "	if (!led_unlikely(err))\n		err"),
    ("what is withheld is forwarded", "forward.c", "(qp->tx_mode | qp->ex.kept)", "(qp->ex.kept)"),
    ("forwarded: the application's wr_id is not put back", "forward.c",
     "	ex->wr_id = ((const union led_send *)(uintptr_t)ex->wr_id)->own.wr_id;", "	(void)ex;"),
    ("forwarded: one more than there is room for", "forward.c", "(--qp->b.room < 0)", "(--qp->b.room < -1)"),
    ("forwarded: what the provider refused stays written", "forward.c",
     "	led_unwrite(qp, n);\n	sp_unlock", "	sp_unlock"),
    ("forwarded: inline data are not kept", "forward.c",
     "	led_copy_short(put_inline(qp, length), addr, length);", "	(void)put_inline(qp, length);"),
    ("forwarded: only one SGE is kept", "forward.c", "	led_copy_sges(to, list, (uint32_t)n);", "	to[0] = list[0];"),
    ("forwarded: the provider does not hear that it was given up", "forward.c",
     "	uint32_t n = qp->sq.head;\n\n	qp->ex.saved.wr_abort(ex);\n", "	uint32_t n = qp->sq.head;\n\n"),
    ("forwarded: SENDs are not counted", "forward.c",
     "	qp->sq.two_sided += led_kind(opcode) == SP_REQ_TWO_SIDED;\n", ""),
    ("remote keys are the application's", "publish.c",
     "	return translate_rkey(qp, c, out);", "	return 0;"),
    ("withheld sends go out of order", "publish.c",
     "		at = led_pub(qp);\n		bad = NULL;",
     "		at = led_pub(qp) + (qp->sq.head - led_pub(qp) > 1 && *done == 0);\n		bad = NULL;"),
    ("what waits behind a fence runs", "publish.c",
     "	if (qp->tx_mode & (LED_HOLD | LED_FENCE | LED_FAILED))\n		return 0;\n	err = led_hand_over",
     "	if (qp->tx_mode & (LED_HOLD | LED_FAILED))\n		return 0;\n	err = led_hand_over"),
    ("receives in another order", "recv.c",
     "	const struct led_recv *r = led_recv_slot(&qp->rq, n);",
     "	uint32_t tail = atomic_load(&qp->rq.tail);\n"
     "	n = (n ^ 1) - tail < led_recv_head(&qp->rq) - tail ? n ^ 1 : n;\n"
     "	const struct led_recv *r = led_recv_slot(&qp->rq, n);"),
    ("a receive is logged where there is no room", "recv.c",
     "	if (rq->shut || behind", "	if (behind"),
    ("two receives where there is room for one", "recv.c",
     "	if (rq->shut || behind != rq->last + 1 || more)", "	if (rq->shut || more)"),
    ("a receive with more SGEs is taken for one with one", "recv.c",
     "	for (uint32_t i = 0; i < room && rq->odd; i++)\n		rq->at[i].num_sge = 1;\n", ""),
    ("a refused receive stays logged", "recv.c",
     "led_recv_head(&qp->rq) - (n - done));", "led_recv_head(&qp->rq) - (n - done) / 2);"),
    ("a withheld receive is posted", "recv.c",
     "	led_recvs_at(&qp->rq, led_recv_head(&qp->rq));\n	qp->rx_mode |= mode;", "	qp->rx_mode |= mode;"),
    ("the oldest receive is not laid", "move.c",
     "	qp->rq.pub = atomic_load(&qp->rq.tail);\n",
     "	qp->rq.pub = atomic_load(&qp->rq.tail) + (led_recv_head(&qp->rq) != atomic_load(&qp->rq.tail));\n"),
    ("the marker is not awaited", "move.c",
     "(c->sq_err || !outstanding_on(qp, c)));", "true);"),
    ("no marker", "move.c",
     "	return !c->sq_err && !led_completes(qp, led_pub(qp) - 1);", "	return false;"),
    ("a count that is not final", "move.c",
     "	out->rq = receives_flushed(qp, qp->rx);", "	out->rq = true;"),
    ("the last receive of a shared queue is not awaited", "move.c",
     "		return led_sealed(c, LED_ATTN_RQ_SEALED) || atomic_load(&c->last_receive);", "		return true;"),
    ("what is delivered is sent again", "publish.c",
     "	return *led_mark(qp, n) & LED_MARK_DELIVERED;", "	return false;"),
    ("what is delivered is left in front", "publish.c", "		*at = next_to_post(qp, *at + 1);\n", "		++*at;\n"),
    ("delivered behind a READ completes before it", "settle.c",
     "i < s->n && is_done(s->fates[i]); i++) {\n		deliver",
     "i < s->n && s->fates[i] != SP_FATE_RESEND; i++) {\n		deliver"),
    ("one delivered completes twice", "settle.c",
     "	led_advance(s->qp, s->first + i);", "	led_advance(s->qp, s->first + i - (i > 0));"),
    ("no signal before what completes later", "settle.c",
     "		*led_mark(qp, s->first + i - 1) |= LED_MARK_SIGNAL;", "		;"),
    ("nobody is told of a delivered completion", "backlog.c",
     "	led_backlog_event(cq, wc->status != IBV_WC_SUCCESS);", ""),
    ("a shared receive is freed twice", "srq.c",
     "		wc->wr_id = r->wr_id;\n		shared_free(srq, r);\n",
     "		wc->wr_id = r->wr_id;\n		shared_free(srq, r);\n		led_list_add(&srq->free, r, false);\n"),
    ("a shared receive that was laid elsewhere stays", "srq.c",
     "	if (r && r->used && r->ring == ring) {", "	if (r && r->used) {"),
    ("what was read ahead is seen by its reader alone", "cq.c", "led_ahead_pop(cq, wc) || led_backlog_pop", "led_backlog_pop"),
    ("failed requests begin one late", "failed.c",
     "	if (f->delivered) {\n		f->delivered--;", "	if (f->delivered) {\n		f->delivered -= f->delivered > 1 ? 2 : 1;"),
)


def source_of(tree, file):
    return os.path.join(tree, "providers", "ledger", file)


def misplaced(mutant):
    """Why that edit does not find its one place; empty: it does."""
    _, file, text, _ = mutant
    with open(source_of(ROOT, file), encoding="utf-8") as f:
        count = f.read().count(text)
    return "" if count == 1 else f"{file} has {count} times {text!r}"


def edit(tree, mutant):
    _, file, text, instead = mutant
    why = misplaced(mutant)
    if why:
        raise SystemExit(f"mutants.py: {why}: bring the list up to date")
    path = source_of(tree, file)
    with open(path, encoding="utf-8") as f:
        source = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(source.replace(text, instead))
    return path


def build_test(tree, build, path):
    """The random test with the edited file in front of the engine's library."""
    libs = [os.path.join(build, *part.split("/")) for part in (
        "tests/lib/libtest_verbs_rig.a", "providers/ledger/libprovider_ledger.a", "providers/libproviders_base.a",
        "tests/lib/libtest_verbs_fake.a", "tests/lib/libhns_fake.so", "tests/lib/librxe_fake.so",
        "tests/lib/libtest_random_model.a")]
    program = os.path.join(tree, "random_test")
    done = subprocess.run(["gcc", "-O1", "-g", "-std=gnu11", "-w", "-D_GNU_SOURCE", "-fno-strict-aliasing",
                           "-I", tree, "-I", ROOT, path, os.path.join(HERE, "random_test.c"), "-o", program, *libs,
                           f"-Wl,-rpath,{os.path.join(build, 'tests', 'lib')}", "-ldl", "-lpthread"],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return program


def said(output):
    """What the test noticed, without the place of the source."""
    lines = [line for line in output.split("\n") if re.search(r"replay with|NIC trips", line)]
    return re.sub(r"^\S*/", "", lines[0]) if lines else output.strip().split("\n")[0][:100]


def judge(args, mutant):
    what = mutant[0]
    with tempfile.TemporaryDirectory() as tree:
        shutil.copytree(os.path.join(ROOT, "providers"), os.path.join(tree, "providers"))
        program = build_test(tree, args.build, edit(tree, mutant))
        try:
            done = subprocess.run([program, str(args.rounds), str(args.seed)], capture_output=True, text=True,
                                  timeout=LIMIT)
            caught, first = done.returncode != 0, said(done.stderr)
            if caught and not first:
                first = f"it ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            caught, first = True, "it hangs"
    print(f"{'ok  ' if caught else 'FAIL'} {what}: {first if caught else 'NOT noticed'}", flush=True)
    return caught


def apply_all():
    reasons = [f"{mutant[0]}: {why}" for mutant in MUTANTS if (why := misplaced(mutant))]
    print("\n".join(reasons) if reasons else f"all {len(MUTANTS)} edits apply")
    return 1 if reasons else 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("build", nargs="?", default="build")
    p.add_argument("--apply", action="store_true")
    p.add_argument("--only", default="", help="a part of its name")
    p.add_argument("--rounds", type=int, default=2048)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    if args.apply:
        return apply_all()
    results = [judge(args, mutant) for mutant in MUTANTS if args.only in mutant[0]]
    print(f"{sum(results)} of {len(results)} were noticed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
