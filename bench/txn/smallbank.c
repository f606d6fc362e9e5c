// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The six transactions of SmallBank, in the shares that FORD draws them, nine of ten on hot accounts.
 * Money is counted in whole units. Record 2a are the savings of account a, 2a + 1 its checking.
 */
#include "bench/txn/txn.h"

enum {
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

/* splitmix64 (Vigna, public domain): a worker's own sequence, from the seed of the run */
uint64_t worker_random(struct worker *w, uint64_t below)
{
	uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
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

	if (worker_random(w, 100) >= HOT_PERCENT)
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

static void reach(struct txn *txn, uint32_t record, bool write)
{
	txn->set[txn->n++] = (struct access){ .record = record, .write = write };
}

void txn_draw(struct worker *w)
{
	struct txn *txn = &w->txn;
	uint32_t a = account_draw(w), b = account_draw(w);

	*txn = (struct txn){ .type = type_draw(w) };
	while (b == a)
		b = account_draw(w);
	switch (txn->type) {
	case AMALGAMATE:
		reach(txn, savings(a), true);
		reach(txn, checking(a), true);
		reach(txn, checking(b), true);
		break;
	case BALANCE:
		reach(txn, savings(a), false);
		reach(txn, checking(a), false);
		break;
	case DEPOSIT_CHECKING: reach(txn, checking(a), true); break;
	case SEND_PAYMENT:
		reach(txn, checking(a), true);
		reach(txn, checking(b), true);
		break;
	case TRANSACT_SAVINGS: reach(txn, savings(a), true); break;
	case WRITE_CHECK:
		reach(txn, savings(a), false);
		reach(txn, checking(a), true);
		break;
	}
}

/* Of the records as they were read. */
bool txn_compute(struct txn *txn)
{
	struct access *set = txn->set;

	for (int i = 0; i < txn->n; i++)
		set[i].value = set[i].seen.value;
	switch (txn->type) {
	case AMALGAMATE:
		set[2].value += set[0].value + set[1].value;
		set[0].value = set[1].value = 0;
		return true;
	case BALANCE: return true;
	case DEPOSIT_CHECKING: set[0].value += DEPOSITED; return true;
	case SEND_PAYMENT:
		set[0].value -= PAID;
		set[1].value += PAID;
		return set[0].value >= 0;
	case TRANSACT_SAVINGS: set[0].value += SAVED; return true;
	case WRITE_CHECK:
		set[1].value -= set[0].value + set[1].value < CHECK ? CHECK + PENALTY : CHECK;
		return true;
	}
	return false;
}
