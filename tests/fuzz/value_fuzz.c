/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Any bytes as what a KV holds: unsealed with and without a secret, then decoded. Reading must end
 * and stay inside them; what is accepted must encode again to the same meaning; with a secret nothing
 * may be accepted that was not sealed with it. The first byte says which of the ways is taken.
 */
#include <stdlib.h>
#include <string.h>

#include "kvclient/mac.h"
#include "kvclient/seal.h"
#include "kvclient/backend.h"
#include "kvclient/kv.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check_record(const void *bytes, size_t n)
{
	struct kv_record rec, again;
	uint8_t wire[KV_RECORD_MAX_LEN];
	size_t len;

	if (kv_record_decode(&rec, bytes, n))
		return;
	CHECK(rec.n_addr >= 1 && rec.n_addr <= KV_MAX_NICS && rec.n_backup <= KV_MAX_NICS);
	CHECK(rec.qpn > 1 && rec.qpn < 0xffffff && rec.remote_qpn > 1);
	for (unsigned i = 0; i < rec.n_addr; i++)
		CHECK(rec.addr[i].mtu <= 5 && rec.addr[i].ctrl_qpn != 1);
	CHECK(!kv_record_encode(&rec, wire, sizeof(wire), &len));
	CHECK(!kv_record_decode(&again, wire, len));
	CHECK(!memcmp(&rec, &again, sizeof(rec)));
}

static int take(struct kv *kv, const uint8_t *data, size_t length)
{
	uint8_t buf[KV_VALUE_MAX];
	struct kv_op op = { .type = KV_OP_GET, .key = "k", .buf = buf, .cap = sizeof(buf) };

	kv->err_rc = 0;
	kv_op_take(kv, &op, data, length);
	CHECK(op.ret == 0 || kv_refusal(op.ret));
	CHECK(op.got <= length);
	if (!op.ret)
		check_record(buf, op.got);
	return op.ret;
}

/* Sealed here and then changed at one place: never accepted. */
static void check_changed(struct kv *kv, const uint8_t *data, size_t length)
{
	uint8_t sealed[KV_SEALED_MAX];
	struct kv_op op = { .type = KV_OP_PUT, .key = "k", .val = data + 3, .len = length - 3 };
	size_t n, at = (size_t)data[0] | (size_t)data[1] << 8;

	if (op.len > KV_VALUE_MAX)
		return;
	CHECK(!kv_seal(kv, &op, sealed, &n));
	CHECK(!take(kv, sealed, n));
	sealed[at % n] ^= data[2] ? data[2] : 1;
	CHECK(take(kv, sealed, n));
}

static struct kv without, with = { .n_secret = 16, .secret = "0123456789abcdef" };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	if (kv_mac_ready(&with))
		abort();
	if (!length)
		return 0;
	switch (data[0] % 4) {
	case 0: check_record(data + 1, length - 1); break;
	case 1: take(&without, data + 1, length - 1); break;
	case 2: CHECK(take(&with, data + 1, length - 1)); break;
	default:
		if (length > 4)
			check_changed(&with, data + 1, length - 1);
	}
	return 0;
}
