/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The key-value store that introduces two ends of a connection to each other.
 *
 * A handle is used by one thread at a time. Calls block: connecting and the command itself for at
 * most the handle's time-out each (looking up a Redis host's name has the resolver's own limits).
 * Nothing here is needed while traffic runs: a store that is gone costs new introductions only.
 *
 * A handle outlives its server: a failed call leaves nothing behind, and the next call connects
 * again. After fork() the child may use the handles that it inherited; they reopen by themselves.
 */
#ifndef KVCLIENT_KV_H
#define KVCLIENT_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_KEY_MAX    255u
#define KV_VALUE_MAX  2048u
#define KV_PREFIX_MAX 128u
#define KV_ERR_MAX    256u

struct kv;

struct kv_options {
	unsigned timeout_ms;	   /* limit of each later call, at least 1 */
	const char *password_file; /* password for addresses that name none; NULL: none */
	const char *secret_file;   /* the job's secret: values have a MAC; NULL: values have none */
	/* told of sockets and files that stay open, to give them another number; NULL: none */
	void (*aside)(int *fd);
};

/*
 * kv_open() - check an address and make a handle; nothing is contacted yet
 * @url: addresses of Redis, redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], rediss://... (TLS) or
 *	redis+unix://[USER[:PASSWORD]@]/PATH, with commas between them and tried in order;
 *	lmdb:/PATH; or NULL or "" for this user's file on this machine. docs/man/shift.7 has all.
 * @err: receives one sentence when the call fails, without any password; may be NULL
 *
 * Returns 0, -EINVAL (malformed address), -EPROTONOSUPPORT (TLS is not to be had here), -ENOMEM, or
 * what is wrong with the secret: it is never left out because it cannot be used.
 */
int kv_open_with(const char *url, const struct kv_options *options, struct kv **out, char *err,
		 size_t errlen);
int kv_open(const char *url, unsigned timeout_ms, struct kv **out, char *err, size_t errlen);

/* kv_close() - release a handle; NULL is allowed. The records it put stay until their leases end.
 */
void kv_close(struct kv *kv);

/* kv_ping() - contact the store. 0, or the -errno that an operation would have met. */
int kv_ping(struct kv *kv);

enum kv_op_type {
	KV_OP_PUT, /* a record that disappears @lease_ms from now unless it is put again */
	KV_OP_GET,
	KV_OP_DEL, /* removing what is not there succeeds */
};

/*
 * An operation of a batch, and its result in @ret: 0, -EINVAL (empty or overlong key or value, no
 * lease), -ENOSPC (the store is full even after a sweep), -EACCES (refused, or a file that is not
 * safely ours), -ECONNREFUSED, -ETIMEDOUT, or another -errno. A get also has -ENOENT (no such
 * record, or its lease ended), -EMSGSIZE (@cap is too small) and the codes of kv_refusal().
 */
struct kv_op {
	enum kv_op_type type;
	const char *key;
	const void *val;   /* put */
	size_t len;	   /* put */
	unsigned lease_ms; /* put */
	void *buf;	   /* get */
	size_t cap;	   /* get */
	size_t got;	   /* get: length of the value, also with -EMSGSIZE */
	int ret;
};

/* Number of operations in flight at once, and in one transaction of an LMDB file. */
#define KV_RUN_MAX 256u

/*
 * kv_run() - do @n operations, KV_RUN_MAX in one round trip to the store
 *
 * They are done in order and each has its own answer in @ret. When the store cannot be reached, or
 * is lost on the way, the operations without an answer have that error; they may or may not have
 * been done. The time-out counts for every KV_RUN_MAX operations.
 *
 * Returns 0 when the store answered all of them, or the -errno of the store. kv_last_error()
 * speaks of the store's failure, or else of the first operation that failed; those that failed by
 * a reason that kv_refusal() knows, or by -ENOENT, come last.
 */
int kv_run(struct kv *kv, struct kv_op *ops, uint32_t n);

/*
 * kv_refusal() - why a value was not believed, for a person; NULL if @rc of a get is no such reason
 *
 * -EBADMSG (malformed), -EPROTONOSUPPORT (another version), -ENOKEY (no MAC where one must be),
 * -EKEYREVOKED (a MAC, and no secret here), -EKEYREJECTED (a wrong MAC), -ESTALE (older than one
 * that was read before), -EMSGSIZE.
 */
const char *kv_refusal(int rc);

/* kv_where() - the store in words for a log line, such as "redis at 127.0.0.1:6379". */
const char *kv_where(const struct kv *kv);

/*
 * kv_contacts() - how often a store was contacted anew
 *
 * When it has risen, another server answers, or one that was started again: it may have lost what
 * was put. Stays 0 for a file.
 */
uint32_t kv_contacts(const struct kv *kv);

/* kv_last_error() - one sentence about the last call that failed on this handle. */
const char *kv_last_error(const struct kv *kv);

#define KV_MAC_LEN 32u

/*
 * kv_derive() - a key for another use of the job's secret, which tells nothing about it
 * @purpose: another one gives another key
 *
 * Returns 0, -ENOKEY (the handle has no secret) or -EIO (libcrypto refuses).
 */
int kv_derive(const struct kv *kv, const char *purpose, uint8_t key[KV_MAC_LEN]);

/*
 * HMAC-SHA256 under one key, prepared for many short texts. Needs libcrypto, which is there when
 * kv_derive() has succeeded in this process. Used by one thread at a time.
 *
 * kv_mac_new() - NULL: no memory, or libcrypto refuses
 * kv_mac_make() - 0, or -EIO
 */
struct kv_mac;
struct kv_mac *kv_mac_new(const uint8_t key[KV_MAC_LEN]);
void kv_mac_free(struct kv_mac *mac);
int kv_mac_make(struct kv_mac *mac, const void *text, size_t n, uint8_t out[KV_MAC_LEN]);

/* kv_mac_same() - compares in a time that does not tell how much of it was right */
bool kv_mac_same(const uint8_t *a, const uint8_t *b, size_t n);

/*
 * kv_prefix() - the prefix of all keys of this job
 * @job: the value of SHIFT_JOB; NULL or "" for "shift/<uid>"
 *
 * Returns 0, -EINVAL (characters other than letters, digits and . _ : / -) or -ENOSPC (@cap).
 */
int kv_prefix(const char *job, char *buf, size_t cap);

/*
 * kv_job_default() - the job by what the batch system or launcher says of it
 *
 * Writes a name that kv_prefix() takes, such as "slurm-1234", and returns the variable that it
 * comes from; NULL where nothing says what job this is.
 */
const char *kv_job_default(char *buf, size_t cap);

/* kv_key_gid(), kv_key_lid() - the key of a QP. 0, or -ENOSPC when @cap is too small. */
int kv_key_gid(char *buf, size_t cap, const char *prefix, const uint8_t gid[16], uint32_t qpn);
int kv_key_lid(char *buf, size_t cap, const char *prefix, uint64_t subnet, uint16_t lid,
	       uint32_t qpn);

/* Equal to the link layers of verbs, which this module does not know. */
enum kv_link_layer {
	KV_LINK_INFINIBAND = 1,
	KV_LINK_ETHERNET = 2,
};

#define KV_MAX_NICS 8u

/* Where the control QP of one NIC of an instance is reached. */
struct kv_addr {
	uint8_t nic;
	uint8_t link_layer;
	uint8_t gid_index_hint;
	uint8_t mtu; /* as verbs count it: 1 is 256 bytes, 5 is 4096; 0: unknown */
	uint8_t gid[16];
	uint16_t lid;
	uint32_t ctrl_qpn; /* 0: it is not open there (yet) */
	uint32_t qkey;
	uint32_t revision; /* revision of this address; a later one is higher */
};

/*
 * True for an address of one host, neither the reader itself nor everybody. The link layer's kind
 * says which of the first two applies.
 */
bool kv_gid_valid(const uint8_t gid[16]);
bool kv_lid_valid(uint16_t lid);
bool kv_qpn_valid(uint32_t qpn); /* True for the number of an ordinary queue pair. */

/*
 * Version of all that two ends tell each other: records in the store, and datagrams
 * (shiftlib/control/wire.h). Any change of either raises it. Ends of different versions refuse each
 * other: docs/upgrades.md. tests/e2e/variants.cmake builds another one.
 */
#ifndef KV_PROTOCOL
#define KV_PROTOCOL 5
#endif

/* The store's record of one QP. @backup lists NIC numbers, the preferred one first. */
struct kv_record {
	uint8_t protocol; /* the writer's; kv_record_encode() writes KV_PROTOCOL */
	uint32_t caps;	  /* bits of what the writer takes part in */
	uint64_t instance;
	uint32_t conn_id;
	uint32_t nonce;
	uint32_t qpn;
	uint32_t remote_qpn;
	uint8_t default_nic;
	uint8_t n_addr;
	uint8_t n_backup;
	uint8_t backup[KV_MAX_NICS];
	struct kv_addr addr[KV_MAX_NICS];
};

#define KV_RECORD_HEAD_LEN 48u
#define KV_RECORD_ADDR_LEN 36u
#define KV_RECORD_MAX_LEN  (KV_RECORD_HEAD_LEN + KV_MAX_NICS * KV_RECORD_ADDR_LEN)

/*
 * kv_record_encode() - write the wire form: little-endian, fixed layout, KV_PROTOCOL first
 *
 * Returns 0 and the length in @len, -ENOSPC (@cap), or -EINVAL when the record is one that
 * kv_record_decode() would refuse.
 */
int kv_record_encode(const struct kv_record *rec, void *buf, size_t cap, size_t *len);

/*
 * kv_record_decode() - read the wire form, trusting nothing in it
 *
 * Returns 0 with every field of @rec checked (lengths, counts, NIC numbers, QPNs, link layers,
 * MTUs, unicast addresses of the link layer's kind), -EPROTONOSUPPORT (another version, which is
 * in @rec->protocol then) or -EBADMSG; nothing else of @rec is written but on success.
 */
int kv_record_decode(struct kv_record *rec, const void *buf, size_t len);

/*
 * kv_fork_before() - wait until no client library is half loaded, nor in the middle of a call
 *
 * Called in the thread that forks; kv_fork_after() in the parent. A child needs neither. A call
 * that waits for the network is not waited for: it holds nothing that a child could need.
 */
void kv_fork_before(void);
void kv_fork_after(void);

#endif
