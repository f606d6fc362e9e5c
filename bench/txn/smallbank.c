// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The six transactions of SmallBank, in FORD's shares, nine of ten on hot accounts. Money is
 * counted in whole units. Record 2a are the savings of account a, 2a + 1 its checking.
 */
#include "bench/txn/txn.h"

enum type { AMALGAMATE, BALANCE, DEPOSIT_CHECKING, SEND_PAYMENT, TRANSACT_SAVINGS, WRITE_CHECK };

enum {
	START_VALUE = 100000,
	HOT_PERCENT = 90,
	HOT_SHARE = 25,
	PAID = 500,
	DEPOSITED = 130,
	SAVED = 2020,
	CHECK = 500,
	PENALTY = 1
};

static const struct {
	enum type type;
	uint32_t percent;
} shares[] = { { AMALGAMATE, 15 },   { BALANCE, 15 },	       { DEPOSIT_CHECKING, 15 },
	       { SEND_PAYMENT, 25 }, { TRANSACT_SAVINGS, 15 }, { WRITE_CHECK, 15 } };

static void bank_start(uint32_t record, int64_t value[FIELDS])
{
	(void)record;
	value[0] = START_VALUE;
}

static uint32_t savings(uint32_t account)
{
	return 2 * account;
}

static uint32_t checking(uint32_t account)
{
	return 2 * account + 1;
}

static uint32_t account_draw(struct worker *w)
{
	uint32_t accounts = w->shape.records / 2, hot = accounts / HOT_SHARE + 2;

	if (!worker_chance(w, HOT_PERCENT))
		hot = accounts;
	return (uint32_t)worker_random(w, hot);
}

static enum type type_draw(struct worker *w)
{
	uint64_t at = worker_random(w, 100);

	for (unsigned int i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		if (at < shares[i].percent)
			return shares[i].type;
		at -= shares[i].percent;
	}
	return WRITE_CHECK;
}

static void bank_draw(struct worker *w)
{
	struct txn *txn = &w->txn;
	uint32_t a = account_draw(w), b = account_draw(w);
	enum type type = type_draw(w);

	*txn = (struct txn){ .type = (uint8_t)type };
	while (b == a)
		b = account_draw(w);
	switch (type) {
	case AMALGAMATE:
		txn_reach(txn, savings(a), true);
		txn_reach(txn, checking(a), true);
		txn_reach(txn, checking(b), true);
		break;
	case BALANCE:
		txn_reach(txn, savings(a), false);
		txn_reach(txn, checking(a), false);
		break;
	case DEPOSIT_CHECKING: txn_reach(txn, checking(a), true); break;
	case SEND_PAYMENT:
		txn_reach(txn, checking(a), true);
		txn_reach(txn, checking(b), true);
		break;
	case TRANSACT_SAVINGS: txn_reach(txn, savings(a), true); break;
	case WRITE_CHECK:
		txn_reach(txn, savings(a), false);
		txn_reach(txn, checking(a), true);
		break;
	}
}

/* Computes from the accounts as they were read; false: one has too little. */
static bool bank_compute(struct worker *w)
{
	struct access *set = w->txn.set;

	switch ((enum type)w->txn.type) {
	case AMALGAMATE:
		set[2].value[0] += set[0].value[0] + set[1].value[0];
		set[0].value[0] = set[1].value[0] = 0;
		return true;
	case BALANCE: return true;
	case DEPOSIT_CHECKING: set[0].value[0] += DEPOSITED; return true;
	case SEND_PAYMENT:
		set[0].value[0] -= PAID;
		set[1].value[0] += PAID;
		return set[0].value[0] >= 0;
	case TRANSACT_SAVINGS: set[0].value[0] += SAVED; return true;
	case WRITE_CHECK:
		set[1].value[0] -=
			set[0].value[0] + set[1].value[0] < CHECK ? CHECK + PENALTY : CHECK;
		return true;
	}
	return false;
}

const struct workload smallbank = { .name = "smallbank",
				    .block = 2,
				    .start = bank_start,
				    .draw = bank_draw,
				    .compute = bank_compute };
