#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Breaks one rule of the ring engine's log at a time, in a copy of its source, and runs its test and the random test:
one of them must notice. Usage: mutants.py BUILD [--only WORD] [--rounds N] [--seed N]. Ends 0 if all were noticed.
mutants.py --apply: only sees whether each edit still finds its place, which takes no time."""
from shiftlab import engine_mutants

# what, file, text, instead; the text must be there once
MUTANTS = (
    ("the word counts one that has not run", "log.h", "htole32(n + 1);", "htole32(n + 2);"),
    ("it bears the number of the next request", "log.h", "	sq->wqe_head[slot] = n;", "	sq->wqe_head[slot] = n + 1;"),
    ("nobody counts its packet", "log.h", "	sq->psn_ahead++;\n", ""),
    ("it completes", "log.c", "	ctrl->qpn_ds = htobe32(RING_LOG_DS", "	ctrl->fm_ce_se = 8;\n	ctrl->qpn_ds = htobe32(RING_LOG_DS"),
    ("atomics are not counted", "log.h",
     "ring_likely(op == MLX5_OPCODE_RDMA_WRITE) || ring_op_atomic(op);",
     "op == MLX5_OPCODE_RDMA_WRITE;"),
    ("it lies behind each n-th request of a batch alone", "wr.c",
     "	b->nreq = 0;\n", "	b->nreq = 0;\n	if (sq->log.every)\n		sq->log.left = sq->log.every;\n"),
    ("what is taken back is one short", "log.c", "counted - 1) % every", "counted) % every"),
    ("and is of any opcode", "log.c", "counted += ring_log_counts(ring_ctrl_opcode(ring_sq_ctrl(sq, from)));",
     "counted++;"),
    ("and has log WQEs for requests", "log.c", "from += ring_wqe_bbs(sq, from))", "from++)"),
    ("it is copied into the register without its request", "log.h", "RING_LOG_ALONE = 1,", "RING_LOG_ALONE = 3,"),
    ("a request is not longer by it", "wqe.c", "	return bbs + ring_wqe_logged(sq, post, bbs);", "	return bbs;"),
    ("one of an earlier lap is taken for it", "wqe.c",
     "	return ring_wqe_is_log(sq, post + bbs) &&\n"
     "	       sq->wqe_head[(post + bbs) & sq->mask] == sq->wqe_head[post & sq->mask];",
     "	return ring_wqe_is_log(sq, post + bbs);"),
    ("a request is looked for and its log WQE found", "wqe.c", " && !ring_wqe_is_log(sq, at) &&", " &&"),
    ("its error leaves its request outstanding", "errors.c", " + ring_wqe_is_log(&c->sq, idx);", ";"),
    ("its error is shown", "errors.c", " || ring_wqe_is_log(sq, idx);", ";"),
    ("what goes back to the hold stays counted", "sq.c", "	ring_log_take_back(sq, batch->from);\n", ""),
    ("its packet stays counted when it goes back", "sq.c", " - 1 + logged;", " - 1;"),
    ("it goes to the hold as a request", "sq.c", "post += app.bbs + logged)", "post += app.bbs)"),
    ("what is given up stays counted", "wr.c", "	ring_log_take_back(b->sq, b->post_rb);\n", ""),
    ("setters of ibv_wr_* lay none", "wr_set.c", "		ring_log_last(&qp->b, sq, finish_in(&qp->b, sq, qp->b.ds));",
     "		finish_in(&qp->b, sq, qp->b.ds);"),
    ("those that translate lay none", "wr_xlat.c", "	if (log)\n		ring_log_last(&qp->b, sq, ctrl);\n", "	(void)ctrl;\n"),
    ("a move ends it", "settle.c", "	qp->tx_mode |= s->to->sq.log.every ? RING_LOG : 0;\n", ""),
    ("what is laid again has none", "nop.c", "	if (to->sq.log.every)\n", "	if (false)\n"),
    ("its packet is not told of", "settle.c", "		sum += packets + behind;", "		sum += packets;"),
    ("nor where it lies before the oldest", "settle.c", "	before = numbered && logged_before(&w);", "	before = false;"),
    ("its packet is its request's", "settle.c", ".packets = packets,", ".packets = packets + behind,"),
    ("a word beyond all that was posted is believed", "log.c", "		ran = INT32_MAX;", "		ran = 0;"),
    ("hidden NOPs are counted", "log.c", "		ran = walk_to(sq, number);", "		(void)walk_to(sq, number);"),
    ("a reset leaves it on", "qp.c", "	c->sq.log = (struct ring_log){ 0 };\n", ""),
)
LIBS = ("tests/lib/libtest_mlx5_rig.a", "providers/mlx5/libprovider_mlx5.a", "providers/libproviders_base.a",
        "tests/lib/libtest_random_model.a")
TESTS = (("tests/unit/mlx5/log_test.c", False), ("tests/unit/mlx5/random_test.c", True))

if __name__ == "__main__":
    engine_mutants.main(engine_mutants.Engine("mlx5", MUTANTS, LIBS, TESTS), __doc__, rounds=300)
