/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire form of control messages: one header and an array of records per datagram, fixed
 * little-endian. Their version is KV_PROTOCOL (kvclient/kv.h). Datagrams come from the network:
 * whatever is read is checked before it is used, and enums and flags that reach the core are in
 * range.
 *
 * The codec keeps no state beyond the writer or reader, allocates nothing, and may be used from any
 * thread (one thread per writer or reader at a time).
 */
#ifndef SHIFTLIB_WIRE_H
#define SHIFTLIB_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "shiftlib/control/control_qp.h"
#include "shiftlib/core/message.h"
#include "shiftlib/core/state.h"

#define SH_WIRE_MAGIC 0x54464853u /* "SHFT" */

#define SH_WIRE_MAX 4000 /* bytes of a datagram on the largest path; see sh_path_payload_max() */

enum sh_wire_type {
	SH_WIRE_STANDBY = 1, /* standby */
	SH_WIRE_STATE,	     /* state */
	SH_WIRE_UNKNOWN,     /* the sender has no such connection; answers src_conn of a record */
	SH_WIRE_KEYS,	     /* keys: additions and removals, numbered from first_seq */
	SH_WIRE_KEYS_ACK,    /* seq: all keys up to and with seq are known */
	SH_WIRE_KEY_ASK,     /* seq: please send keys again, from seq */
	SH_WIRE_NICS,	     /* nics: present addresses of the sender's NICs */
	SH_WIRE_NICS_ACK,    /* seq: all revisions up to and with seq are known */
	SH_WIRE_PING,	     /* ping: please answer over the same pair of NICs */
	SH_WIRE_PONG,	     /* ping: its number, and the NIC of the answering end */
	SH_WIRE_HOME,	     /* home: the NIC that runs atomics; only with SH_WIRE_CAP_HOME */
	SH_WIRE_WORD,	     /* word: for an atomic of unknown fate */
	SH_WIRE_LOG,	     /* log: the word of a carrier that tells what ran */
	SH_WIRE_INQUIRY,     /* inquiry: is a NIC well? Only with SH_WIRE_CAP_INQUIRY */
	SH_WIRE_TYPES,
};

/* Bit of kv_record.caps: the sender takes part in HOME, by its SHIFT_ATOMIC_HOME. */
#define SH_WIRE_CAP_HOME (1u << SH_WIRE_HOME)
/* The same: the sender answers INQUIRY. */
#define SH_WIRE_CAP_INQUIRY (1u << SH_WIRE_INQUIRY)

/* The connection that a record is about. Records about instances (KEYS...) carry zeros. */
struct sh_wire_ids {
	uint32_t src_conn; /* the sender's number of the connection */
	uint32_t dst_conn; /* the receiver's */
	uint32_t nonce;	   /* the receiver's: no other connection of that number answers */
};

enum sh_wire_key_op { SH_WIRE_KEY_ADD, SH_WIRE_KEY_REMOVE, SH_WIRE_KEY_OPS };

/* Memory key `rkey` of the sender's NIC `nic` is `backup_rkey` on its NIC `backup_nic`. */
struct sh_wire_key {
	uint8_t op; /* enum sh_wire_key_op */
	uint8_t nic, backup_nic;
	uint32_t rkey, backup_rkey;
};

#define SH_WIRE_NICS_MAX 4 /* most NICs in one record, which fits the smallest path */

/*
 * The sender's NIC, and the address of its control QP. Later revisions replace earlier ones; in a
 * record they rise.
 */
struct sh_wire_nic {
	uint8_t nic;
	uint32_t revision;
	struct sh_address address; /* without gid_index and active, which are the host's own */
};

enum sh_wire_word_kind {
	SH_WIRE_WORD_ASK,     /* asks for the value */
	SH_WIRE_WORD_TOLD,    /* value, read after the quiesce of that carrier */
	SH_WIRE_WORD_REFUSED, /* no such word, or not readable */
	SH_WIRE_WORD_KINDS,
};

/* The 8 bytes at the receiver of ASK, by the key that its application gave away. */
struct sh_wire_word {
	uint8_t kind;	  /* enum sh_wire_word_kind */
	uint32_t carrier; /* carrier that the atomic lies in */
	uint32_t rkey;
	uint64_t addr, value;
};

enum sh_wire_log_kind {
	SH_WIRE_LOG_ASK,     /* asks for the place of the carrier's word */
	SH_WIRE_LOG_PLACE,   /* tells it: addr, rkey, tag */
	SH_WIRE_LOG_REFUSED, /* no word, or none to believe: why */
	SH_WIRE_LOG_READ,    /* asks for the number */
	SH_WIRE_LOG_SAYS,    /* number, read after the quiesce of that carrier */
	SH_WIRE_LOG_NOTHING, /* no number, after the quiesce: the word was not written */
	SH_WIRE_LOG_KINDS,
};

enum sh_wire_log_why {
	SH_WIRE_LOG_WHY_NONE,
	SH_WIRE_LOG_WHY_RIGHTS, /* the queue pair takes no WRITEs */
	SH_WIRE_LOG_WHY_ORDER,	/* the word may overtake data to some memory */
	SH_WIRE_LOG_WHY_MEMORY, /* the word could not be registered */
	SH_WIRE_LOG_WHYS,
};

/* The word of the receiver of ASK and READ, for one carrier of the connection. */
struct sh_wire_log {
	uint8_t kind, why; /* enum sh_wire_log_kind, sh_wire_log_why */
	uint32_t carrier;
	uint32_t rkey, tag;
	uint64_t addr;
	uint32_t number;
};

enum sh_wire_inquiry_kind {
	SH_WIRE_INQUIRY_ASK,  /* asks whether the NIC of the receiver's carrier is well */
	SH_WIRE_INQUIRY_WELL, /* the NIC obeys, a while after the question was heard */
	SH_WIRE_INQUIRY_SICK,
	SH_WIRE_INQUIRY_KINDS,
};

/* About a carrier whose other end answered a request with an error. */
struct sh_wire_inquiry {
	uint8_t kind;	/* enum sh_wire_inquiry_kind */
	uint8_t status; /* ASK: enum ibv_wc_status of that request, for the log */
	uint32_t carrier;
};

struct sh_wire_ping {
	uint32_t seq;
	uint8_t nic; /* the sender's NIC that it left from */
};

/* ---- writing -------------------------------------------------------------------------------- */

struct sh_wire_writer {
	uint8_t *buf;
	size_t capacity, used;
	uint16_t n_records;
	uint64_t src_instance, dst_instance;
};

/* Begins a datagram. capacity: bytes at buf, a header at least; at most SH_WIRE_MAX are used. */
void sh_wire_begin(struct sh_wire_writer *writer, void *buf, size_t capacity, uint64_t src_instance,
		   uint64_t dst_instance);
/* Appends one record: 0, or -ENOSPC when it does not fit (end, send, begin anew). */
int sh_wire_put_standby(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
			const struct sc_msg_standby *standby);
int sh_wire_put_state(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		      const struct sc_msg_state *state);
int sh_wire_put_home(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		     const struct sc_msg_home *home);
int sh_wire_put_word(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		     const struct sh_wire_word *word);
int sh_wire_put_log(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
		    const struct sh_wire_log *log);
int sh_wire_put_inquiry(struct sh_wire_writer *writer, const struct sh_wire_ids *ids,
			const struct sh_wire_inquiry *inquiry);
int sh_wire_put_unknown(struct sh_wire_writer *writer, const struct sh_wire_ids *ids);
/*
 * Appends as many keys as fit. Returns their number (at least 1), or -ENOSPC. Key i has number
 * first_seq + i.
 */
int sh_wire_put_keys(struct sh_wire_writer *writer, uint32_t first_seq,
		     const struct sh_wire_key *keys, size_t n);
int sh_wire_put_keys_ack(struct sh_wire_writer *writer, uint32_t seq);
int sh_wire_put_key_ask(struct sh_wire_writer *writer, uint32_t seq);
/* Appends all n, at most SH_WIRE_NICS_MAX, or returns -ENOSPC. */
int sh_wire_put_nics(struct sh_wire_writer *writer, const struct sh_wire_nic *nics, uint32_t n);
int sh_wire_put_nics_ack(struct sh_wire_writer *writer, uint32_t seq);
int sh_wire_put_ping(struct sh_wire_writer *writer, const struct sh_wire_ping *ping);
int sh_wire_put_pong(struct sh_wire_writer *writer, const struct sh_wire_ping *ping);
/* Completes the header. Returns the bytes to send; 0 without records. */
size_t sh_wire_end(struct sh_wire_writer *writer);

/* ---- reading -------------------------------------------------------------------------------- */

struct sh_wire_header {
	uint64_t src_instance, dst_instance;
	uint16_t n_records;
};

struct sh_wire_reader {
	const uint8_t *buf;
	size_t length, at;
	uint16_t records_left;
};

struct sh_wire_record {
	enum sh_wire_type type;
	struct sh_wire_ids ids;
	union {
		struct sc_msg_standby standby;
		struct sc_msg_state state;
		struct sc_msg_home home;
		struct sh_wire_word word;
		struct sh_wire_log log;
		struct sh_wire_inquiry inquiry;
		struct {
			uint32_t first_seq;
			uint32_t n;
			const uint8_t
				*raw; /* read with sh_wire_key(); lives as long as the buffer */
		} keys;
		struct {
			uint32_t n;
			struct sh_wire_nic nic[SH_WIRE_NICS_MAX];
		} nics;
		struct sh_wire_ping ping; /* PING, PONG */
		uint32_t seq;		  /* KEYS_ACK, KEY_ASK, NICS_ACK */
	};
};

/*
 * Checks the header. 0; -EBADMSG: not ours or damaged; -EPROTONOSUPPORT: another version. Bytes
 * behind the header's length are ignored: in a job with a secret the signature (auth.h) is there.
 */
int sh_wire_open(struct sh_wire_reader *reader, const void *buf, size_t length,
		 struct sh_wire_header *header);
/*
 * Reads the next record. 1: *record is set. 0: no more. -EBADMSG: damaged; nothing more can be
 * read.
 */
int sh_wire_next(struct sh_wire_reader *reader, struct sh_wire_record *record);
/* Returns key i < record->keys.n of a KEYS record. */
struct sh_wire_key sh_wire_key(const struct sh_wire_record *record, uint32_t i);

#endif
