/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The checks by name, and what they share. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/probe/check.h"

#define FATE "settling would take requests for acknowledged that are not, or the other way round: "

/*
 * The checks, in their order; those at the end want the link down. Above each: the test, and the
 * NIC whose fault a failure is. --list prints the assumption, and the consequence if it is wrong.
 */
const struct pr_check pr_checks[] = {
	/* A NOP behind a SEND that finds no receive, and behind a long READ. Either NIC. */
	{ .name = "nop-order",
	  .assumption = "A signaled NOP completes behind all requests before it, acknowledgements "
			"and READ data included.",
	  .otherwise = "The NOP that SHIFT hides is the fence of an ordered switch: drain and "
		       "failback would resend what was executed. SHIFT needs a READ of zero bytes "
		       "as its fence there.",
	  .run = check_nop_order },
	/* A WRITE with the fence flag over the source of a READ. Either NIC. */
	{ .name = "fence",
	  .assumption = "A request with the fence flag is executed when all READs before it have "
			"completed.",
	  .otherwise = "A delivered request with the fence flag proves the READs before it; "
		       "without that proof SHIFT must end such connections with errors.",
	  .run = check_fence },
	/* Completions of READs, WRITEs and SENDs, mixed; receives. Either NIC. */
	{ .name = "cqe-order",
	  .assumption = "Completions come in posting order at both ends, with the index of their "
			"request.",
	  .otherwise = "The engine finds a request by that index and passes completions on as they "
		       "come: it cannot drive this NIC, set SHIFT_DISABLE=1.",
	  .run = check_cqe_order },
	/* Memory, looked at in the moment of the receive's completion. Server's memory. */
	{ .name = "write-send",
	  .assumption =
		  "When a receive completes, WRITEs posted before it on that queue pair are in "
		  "memory.",
	  .otherwise = "A count of receives tells what was written: a move could lose data. Memory "
		       "that needs a READ behind it (a GPU's) is held to self-read instead.",
	  .run = check_write_send },
	/*
	 * Memory, looked at in the moment of the completion of a READ over a loopback QP.
	 * Server's memory.
	 */
	{ .name = "self-read",
	  .assumption = "A READ over a loopback QP pushes what its NIC wrote to "
			"memory.",
	  .otherwise = "NCCL's flush, and SHIFT's loopback READs on backup NICs, would not order a "
		       "GPU's memory.",
	  .run = check_self_read },
	/*
	 * Requests in the ring behind the doorbell record, changed before they are
	 * published. Client's NIC.
	 */
	{ .name = "withheld",
	  .assumption =
		  "A request that lies in the ring behind the doorbell record is not executed, "
		  "and may be changed.",
	  .otherwise = "Requests that SHIFT withholds during a move would run early, or with old "
		       "keys.",
	  .run = check_withheld },
	/* Requests copied into the register, mixed with plain doorbells. Client's NIC. */
	{ .name = "blueflame",
	  .assumption =
		  "A request copied into the BlueFlame register runs once and in order, mixed "
		  "with plain doorbells.",
	  .otherwise = "Set MLX5_SHUT_UP_BF=1: the engine then uses plain doorbells only.",
	  .run = check_blueflame },
	/* 1,200 receives, looked at when all have completed: none compressed. Server's NIC. */
	{ .name = "cqe-format",
	  .assumption = "Completions are 64 or 128 bytes, owner bit by turns, never compressed "
			"unless asked for.",
	  .otherwise = "The engine reads no compressed completions: it would lose some. Turn "
		       "compression off in the firmware.",
	  .run = check_cqe_format },
	/* Small data in completions, or in buffers, as the flags say. Either NIC. */
	{ .name = "scatter",
	  .assumption = "Small data is in the completion where its flags say so, and in the buffer "
			"otherwise.",
	  .otherwise = "Small receives would be delivered with wrong bytes; set "
		       "MLX5_SCATTER_TO_CQE=0.",
	  .run = check_scatter },
	/* Byte order of results, and how often they were executed. Either NIC. */
	{ .name = "atomics",
	  .assumption =
		  "Atomics work on the host's byte order, at both ends, and are executed once.",
	  .otherwise = "Atomics would return wrong values on the backup NIC.",
	  .run = check_atomics },
	/* Unsignaled and signaled requests that ERR flushes, and the first index. Client's NIC. */
	{ .name = "flush-sends",
	  .assumption =
		  "A queue pair taken to ERR completes all outstanding sends, unsignaled ones "
		  "too, from the first unacknowledged on.",
	  .otherwise = FATE "connections would end with errors, or resend too much.",
	  .run = check_flush_sends },
	/* Receives that ERR flushes, behind good ones. Server's NIC. */
	{ .name = "flush-recvs",
	  .assumption = "A queue pair taken to ERR gives back each posted receive once, in order, "
			"behind the good ones.",
	  .otherwise = "The count of receives would be wrong, and messages lost or doubled in a "
		       "move.",
	  .run = check_flush_recvs },
	/* A NOP and a receive that are posted in ERR, behind RTS and behind RTR. Client's NIC. */
	{ .name = "flush-late",
	  .assumption = "What is posted to a queue pair in ERR is flushed too, NOPs included, also "
			"if it never was in RTS.",
	  .otherwise = "SHIFT waits for the flush of such a NOP as proof, and would take a healthy "
		       "NIC for sick: moves take SHIFT_PACKET_LIFETIME_MS longer.",
	  .run = check_flush_late },
	/* The request that the error names when retries end. Client's NIC. */
	{ .name = "error-index",
	  .assumption =
		  "When retries end, the error completion names the first request that was not "
		  "acknowledged; flushes follow.",
	  .otherwise = FATE "messages could be lost or doubled.",
	  .run = check_error_index },
	/* How long retries take, for timeout 14 with 1 and with 7 retries. Client's NIC. */
	{ .name = "retry-time",
	  .assumption = "Retries end no sooner than 4.096 us x 2^timeout x (retry count + 1), and "
			"within four times that (IBA 9.7.6.1.3).",
	  .otherwise =
		  "SHIFT waits for a path or a peer as long as the queue pair itself would: where "
		  "retries last longer, a connection may end that stock would keep; set "
		  "SHIFT_RETRY_STRETCH to the ratio, rounded up.",
	  .run = check_retry_time },
	/*
	 * WRITEs under way while the peer goes to ERR, to RESET, or is destroyed: its memory, then
	 * and later. Server's NIC.
	 */
	{ .name = "late-write",
	  .assumption = "When a queue pair was taken to ERR or RESET, or destroyed, no packet that "
			"is still on its way changes its memory.",
	  .otherwise = "A late WRITE could overwrite what was written again on the backup: raise "
		       "SHIFT_PACKET_LIFETIME_MS, and tell us.",
	  .run = check_late_write },
	/*
	 * The number that a queue pair expects behind WRITEs of one and of three packets, a READ
	 * and an atomic, and then in ERR. Server's NIC.
	 */
	{ .name = "err-psn",
	  .assumption = "A queue pair tells the sequence number that it expects next, packet by "
			"packet, and in ERR still the one that it would have taken.",
	  .otherwise = "SHIFT could not know from it whether WRITEs and atomics under way were "
		       "executed: some connections end without that knowledge.",
	  .run = check_err_psn },
	/* How long ibv_query_qp() of a queue pair in ERR takes. Client's NIC. */
	{ .name = "psn-cost",
	  .assumption = "A query of a queue pair in ERR takes less than 10 ms.",
	  .otherwise = "Moves of many connections that ask for sequence numbers would take long.",
	  .run = check_psn_cost },
	/*
	 * A long WRITE, then one of eight bytes, which the server's CPU waits for. Server's NIC.
	 */
	{ .name = "log-order",
	  .assumption =
		  "A short WRITE is in memory behind the data of WRITEs before it on its queue "
		  "pair.",
	  .otherwise = "What is written behind data would be no proof of the data: a log of that "
		       "kind has to stay off.",
	  .run = check_log_order },
	/*
	 * Additions to one word by loopback QPs of two NICs of one host, and of one. Client's NIC
	 * and another NIC of its host.
	 */
	{ .name = "atomic-scope",
	  .assumption = "Atomics of one NIC are atomic to each other; of two NICs if both say so "
			"(pci_atomic_caps, or IBV_ATOMIC_GLOB).",
	  .otherwise = "Additions would be lost where connections to one word use two NICs, as "
		       "after a move of some of them.",
	  .run = check_atomic_scope },
	/* Unread completions and indices behind RESET, five lives. Either NIC. */
	{ .name = "reset-reuse",
	  .assumption =
		  "After RESET a queue pair begins with index 0; unread completions stay, and "
		  "no stale one comes.",
	  .otherwise = "Applications that reset queue pairs would see completions of their former "
		       "life.",
	  .run = check_reset_reuse },
	/* LAST_WQE_REACHED, behind all completions; the rest of the shared queue. Server's NIC. */
	{ .name = "srq-last",
	  .assumption = "A queue pair of a shared receive queue raises LAST_WQE_REACHED in ERR, "
			"behind the completions of all that it took.",
	  .otherwise = "SHIFT waits for that event before it counts receives: moves of such queue "
		       "pairs would take a second, as on a sick NIC.",
	  .run = check_srq_last },
	/* Empty messages to itself that take receives out of a shared queue. Client's NIC. */
	{ .name = "srq-taker",
	  .assumption = "A loopback QP takes receives out of a shared queue with "
			"empty messages.",
	  .otherwise = "Receives cannot be taken back from a ring that has too many; peers of "
		       "another ring may wait.",
	  .run = check_srq_taker },
	/* 256 queue pairs, one after another: when a number comes back. Client's NIC. */
	{ .name = "qpn-reuse",
	  .assumption = "The number of a queue pair that was destroyed is not given out again at "
			"once.",
	  .otherwise =
		  "Late packets are then kept out by their random first sequence number alone.",
	  .run = check_qpn_reuse,
	  .any_nic = true },
	/*
	 * Create, modify, destroy, register: medians, and whether four threads do more than one.
	 * Client's NIC.
	 */
	{ .name = "cmd-cost",
	  .assumption = "Commands (create, modify, destroy, register) take far less than "
			"SHIFT_COMMAND_MS, 400 ms.",
	  .otherwise = "SHIFT would take a healthy NIC for one that hangs: raise SHIFT_COMMAND_MS "
		       "above the slowest.",
	  .run = check_cmd_cost,
	  .any_nic = true },
	/* The interface that Linux names for the GID (Ethernet). Client's NIC. */
	{ .name = "netdev",
	  .assumption = "Linux names the NIC's network interface, whose link can be monitored.",
	  .otherwise = "SHIFT goes by the NIC's own port events and by heartbeats alone.",
	  .run = check_netdev,
	  .any_nic = true },
	/* The command word of the PCI header. Client's NIC. */
	{ .name = "bus-master",
	  .assumption = "Everybody may read the PCI config space, and a NIC that reaches memory is "
			"master of the bus there.",
	  .otherwise = "Unreadable: a move from a dead NIC always waits for the packet lifetime. "
		       "Wrong: the move does not wait for what the NIC may still do; tell us.",
	  .run = check_bus_master,
	  .any_nic = true },
	/*
	 * WRITEs between two queue pairs of one NIC, within a partition and across. Client's NIC.
	 */
	{ .name = "pkey-drops",
	  .assumption =
		  "A queue pair sends and takes packets of the partition at its P_Key index, and "
		  "of no other.",
	  .otherwise = "Traffic that moves could come into another partition, or not arrive: give "
		       "each tenant NICs of its own.",
	  .run = check_pkey_drops },
	/*
	 * A peer in RESET, eight WRITEs of which two are signaled, then ERR. Client's NIC, as in
	 * all of verbs-.
	 */
	{ .name = "verbs-flush",
	  .assumption =
		  "A queue pair taken to ERR completes each request without an answer once, in "
		  "order, unsignaled ones too.",
	  .otherwise = FATE "SHIFT's ledger cannot drive this NIC; tell us.",
	  .run = check_verbs_flush,
	  .any_nic = true },
	/* Four unsignaled WRITEs that arrived, then ERR. */
	{ .name = "verbs-acked",
	  .assumption = "Unsignaled requests that were acknowledged have no completion when the "
			"queue pair goes to ERR.",
	  .otherwise =
		  "The ledger takes them for requests without an answer: WRITEs behind the last "
		  "signaled one are written again, in a wider window than elsewhere.",
	  .run = check_verbs_acked,
	  .any_nic = true },
	/* A WRITE, an empty WRITE and a receive, posted in ERR. */
	{ .name = "verbs-post-err",
	  .assumption = "What is posted to the send queue in ERR is taken, and flushed.",
	  .otherwise =
		  "Such a marker ends the ledger's account of the flush; without it the account "
		  "ends when each outstanding request was flushed. Receives need not be taken "
		  "or flushed: the ledger knows them.",
	  .run = check_verbs_post_err,
	  .any_nic = true },
	/* WRITEs until one is refused. */
	{ .name = "verbs-send-limit",
	  .assumption = "A send queue takes at least as many requests as it said.",
	  .otherwise =
		  "The ledger refuses at that number, whatever the provider would take; where it "
		  "takes fewer, a move could find no room for what must be sent again.",
	  .run = check_verbs_send_limit,
	  .any_nic = true },
	/* LAST_WQE_REACHED, and the completions before it. */
	{ .name = "verbs-srq-last",
	  .assumption = "A queue pair of a shared receive queue raises LAST_WQE_REACHED in ERR, "
			"behind the completions of all that it took.",
	  .otherwise = "Nothing else says that its count of receives is final: queue pairs with "
		       "shared receive queues stay driven, and are not protected.",
	  .run = check_verbs_srq_last,
	  .any_nic = true },
	/*
	 * An empty WRITE with key 0, to a queue pair that allows WRITEs and to one that does not.
	 */
	{ .name = "verbs-empty-write",
	  .assumption = "A WRITE of no bytes needs no key, only the peer's right.",
	  .otherwise =
		  "It is the fence of ordered switches behind a WRITE: SHIFT leaves at once and "
		  "settles instead. Peers tell whether they give the right.",
	  .run = check_verbs_empty_write,
	  .any_nic = true },
	/* ibv_post_send() and ibv_poll_cq() on objects of the extended verbs. */
	{ .name = "verbs-mixed",
	  .assumption = "ibv_poll_cq() works on an ibv_cq_ex, ibv_post_send() on a queue pair made "
			"for ibv_wr_*.",
	  .otherwise =
		  "SHIFT lays and collects by the plain verbs on all objects: programs that use "
		  "the extended ones would be left alone.",
	  .run = check_verbs_mixed,
	  .any_nic = true },
	/* Eight WRITEs without an answer, ERR, and another state in ibv_qp. */
	{ .name = "verbs-state-word",
	  .assumption = "Requests are flushed also while ibv_qp.state does not say ERR.",
	  .otherwise =
		  "SHIFT writes the program's own state there only when all was flushed: until "
		  "then the program may see ERR.",
	  .run = check_verbs_state_word,
	  .any_nic = true },
	/* The extended objects that can be made. */
	{ .name = "verbs-extended",
	  .assumption = "A provider that has ibv_cq_ex tells the queue pair's number in it.",
	  .otherwise =
		  "SHIFT asks for that number in each ibv_cq_ex: programs would be refused it, "
		  "and use plain completion queues.",
	  .run = check_verbs_extended,
	  .any_nic = true },
	/*
	 * Packets of UC with numbers ahead of the expected one and behind it. Client's NIC, as
	 * in all that follow.
	 */
	{ .name = "uc-order",
	  .assumption = "A packet of UC that is a message of its own is taken whatever its number, "
			"and its bytes are there when its completion is (IBA 9.8.2.2.1).",
	  .otherwise = "SDR would take a link that reorders for one that loses; without the bytes "
		       "its bitmaps would lie: do not use it on this NIC.",
	  .run = check_uc_order,
	  .any_nic = true },
	/* A packet of UC twice, and another. */
	{ .name = "uc-dup",
	  .assumption =
		  "A packet of UC that comes twice is taken once or twice, and what follows is "
		  "taken, too.",
	  .otherwise = "A network that doubles a packet would end an SDR connection.",
	  .run = check_uc_dup,
	  .any_nic = true },
	/* A packet of UC that finds no receive, and one that does. */
	{ .name = "uc-dry",
	  .assumption = "A WRITE with immediate of UC that finds no receive is dropped without a "
			"completion, and the queue pair goes on.",
	  .otherwise = "SDR takes a receive queue that runs dry for a loss; here it would end the "
		       "connection: raise recv_depth, lower rate_bps.",
	  .run = check_uc_dry,
	  .any_nic = true },
	/* A packet of UC, and a message of three, by the key of a region that is gone. */
	{ .name = "uc-key",
	  .assumption = "What comes on UC by a dead key is dropped without a completion, and the "
			"queue pair goes on.",
	  .otherwise =
		  "A late packet would end an SDR connection whose backend is window: take the "
		  "backend root, or stage.",
	  .run = check_uc_key,
	  .any_nic = true },
	/* 1,000 packets of UC, each with a completion and a receive anew. */
	{ .name = "uc-rate",
	  .assumption =
		  "A process takes at least 200 packets of UC a second, each with a completion "
		  "of its own.",
	  .otherwise = "SDR is of no use here; elsewhere the evidence is what its rate_bps should "
		       "stay below, at one thread.",
	  .run = check_uc_rate,
	  .any_nic = true },
	/* WRITEs by one window over two queue pairs, neither of which bound it. */
	{ .name = "window-all-qps",
	  .assumption =
		  "By a memory window of type 1 every queue pair of its protection domain may "
		  "write.",
	  .otherwise =
		  "Packets of SDR's backend window would be dropped: take the backend root, or "
		  "stage.",
	  .run = check_window_all_qps,
	  .any_nic = true },
	/*
	 * Packets before, while and after a window is unbound, 40 rounds: memory, from the
	 * completion on.
	 */
	{ .name = "unbind-late",
	  .assumption =
		  "When the unbind of a window is complete, nothing is written by its key any "
		  "more; what comes is dropped, and the queue pair goes on.",
	  .otherwise =
		  "A late packet would overwrite a buffer that is its owner's again: take SDR's "
		  "backend stage, and tell us.",
	  .run = check_unbind_late,
	  .any_nic = true },
	/* Medians of 65 binds and unbinds, each awaited. */
	{ .name = "bind-cost",
	  .assumption = "To bind a window, and to unbind it, takes less than 10 ms each.",
	  .otherwise = "SDR does both for every message, one behind the other for each slot: more "
		       "max_msgs, or the backend stage.",
	  .run = check_bind_cost,
	  .any_nic = true },
	/* WRITEs to two entries of an indirect key: the null key, and memory. */
	{ .name = "null-key",
	  .assumption = "A packet to an entry of the null key in an indirect key completes its "
			"receive, and is written nowhere.",
	  .otherwise = "SDR's backend root does not work here; its own choice is window, or stage.",
	  .run = check_null_key,
	  .any_nic = true },
	/* Four entries of eight changed, and taken back. */
	{ .name = "umr-offset",
	  .assumption = "A request changes four entries of an indirect key's list, from an offset "
			"on, and no others; when it is complete, the old ones are dead.",
	  .otherwise = "With SDR's backend root packets would go to the buffer of another message: "
		       "take window, or stage.",
	  .run = check_umr_offset,
	  .any_nic = true },
	/* WRITEs under way when the link goes down: that number, and memory. Server's NIC. */
	{ .name = "cut-psn",
	  .assumption = "When a link goes down in the middle of a WRITE, the expected sequence "
			"number tells which of its packets are in memory.",
	  .otherwise = "As of err-psn.",
	  .run = check_cut_psn,
	  .link = true },
	/* PORT_ERR when the link goes down. Client's NIC. */
	{ .name = "port-event",
	  .assumption =
		  "A port that goes down raises PORT_ERR at once, and says so when it is asked.",
	  .otherwise = "Detection takes SHIFT_HEARTBEAT_LOSS_MS instead of a millisecond.",
	  .run = check_port_event,
	  .any_nic = true },
	/* A WRITE to itself with the link down. Client's NIC. */
	{ .name = "loopback-down",
	  .assumption = "A port that is down delivers nothing, not even to its own NIC.",
	  .otherwise = "Queue pairs connected to one of the same NIC stay there until their own "
		       "traffic fails, which is safe, and later.",
	  .run = check_loopback_down,
	  .link = true },
	/* A UD queue pair before, while and after the link is down. Client's NIC. */
	{ .name = "ud-survives",
	  .assumption = "A UD queue pair outlives a link that is down: it stays in RTS, and works "
			"again afterwards.",
	  .otherwise = "SHIFT's control QP would have to be made anew at each flap.",
	  .run = check_ud_survives,
	  .any_nic = true },
};

const unsigned pr_n_checks = sizeof(pr_checks) / sizeof(pr_checks[0]);

const char *pr_verdict_name(enum pr_verdict verdict)
{
	switch (verdict) {
	case PR_HOLDS: return "holds";
	case PR_FAILS: return "FAILS";
	case PR_CANNOT_TELL: return "cannot tell";
	}
	return "?";
}

/* ---- results --------------------------------------------------------------------------------- */

void pr_note(struct pr_result *r, const char *name, long long value)
{
	json_object_set_new(r->evidence, name, json_integer(value));
}

/* Notes a number with two digits behind the point. */
void pr_note_real(struct pr_result *r, const char *name, double value)
{
	json_object_set_new(r->evidence, name, json_real((double)(long long)(value * 100) / 100));
}

void pr_note_text(struct pr_result *r, const char *name, const char *value)
{
	json_object_set_new(r->evidence, name, json_string(value));
}

enum pr_verdict pr_fails(struct pr_result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->reason, sizeof(r->reason), fmt, ap);
	va_end(ap);
	return PR_FAILS;
}

enum pr_verdict pr_cannot_tell(struct pr_result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->reason, sizeof(r->reason), fmt, ap);
	va_end(ap);
	return PR_CANNOT_TELL;
}
