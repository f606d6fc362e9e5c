// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A workload after TPC-C: new-order and payment, half and half, each of its worker's home
 * warehouse. Left out are the other three transactions, names and texts, and the size of the
 * tables. Prices of items never change, so clients know them. Money is counted in cents.
 * shiftlab/tpcc.py has the same numbers, and checks TPC-C's demands on the tables.
 */
#include "bench/txn/txn.h"

enum type { NEW_ORDER, PAYMENT };

enum {
	DISTRICTS = 10,	 /* districts of a warehouse */
	CUSTOMERS = 30,	 /* customers of a district */
	ITEMS = 300,	 /* items of all warehouses, each with its stock */
	ORDERS = 2048,	 /* most orders of a district */
	PAYMENTS = 8192, /* most payments of a worker */
	LINES_MIN = 5,
	QUANTITY_MAX = 10,
	AMOUNT_MIN = 100,
	AMOUNT_MAX = 500000,
	ORDER_PERCENT = 50,
	DOOMED_PERCENT = 1,    /* orders with an item that is not there */
	FOREIGN_SUPPLY = 10,   /* percent of the lines: another warehouse's stock */
	FOREIGN_CUSTOMER = 15, /* percent of the payments */
	REFILL_BELOW = 10,
	REFILL = 91
};

/* A block: a warehouse, its districts, their customers, its stock. */
enum {
	DISTRICT_AT = 1,
	CUSTOMER_AT = DISTRICT_AT + DISTRICTS,
	STOCK_AT = CUSTOMER_AT + DISTRICTS * CUSTOMERS,
	BLOCK = STOCK_AT + ITEMS
};

/* Fields; and the places of records in a transaction's set. */
enum { WAREHOUSE_YTD, WAREHOUSE_TAX };
enum { DISTRICT_NEXT, DISTRICT_YTD };
enum { CUSTOMER_BALANCE, CUSTOMER_PAID, CUSTOMER_PAYMENTS, CUSTOMER_DISCOUNT };
enum { STOCK_QUANTITY, STOCK_YTD, STOCK_ORDERS, STOCK_FOREIGN };
enum { AT_WAREHOUSE, AT_DISTRICT, AT_CUSTOMER, AT_STOCK };

/* ---- tables --------------------------------------------------------------------------------- */

static void tpcc_start(uint32_t record, int64_t value[FIELDS])
{
	uint32_t at = record % BLOCK;

	if (at < DISTRICT_AT)
		value[WAREHOUSE_TAX] = record / BLOCK % 201; /* per mille */
	else if (at < CUSTOMER_AT)
		value[DISTRICT_NEXT] = 1;
	else if (at < STOCK_AT)
		value[CUSTOMER_DISCOUNT] = record % 51; /* percent */
	else
		value[STOCK_QUANTITY] = REFILL_BELOW + record % REFILL;
}

static int64_t price(uint32_t item)
{
	return 100 + item * 31 % 9901;
}

static uint32_t warehouses(const struct worker *w)
{
	return w->shape.records / BLOCK;
}

static uint32_t home(const struct worker *w)
{
	return (w->id - 1) % warehouses(w);
}

/* The home, or another one if there is. */
static uint32_t warehouse_draw(struct worker *w, uint32_t percent)
{
	uint32_t others = warehouses(w) - 1;

	if (!others || !worker_chance(w, percent))
		return home(w);
	return (home(w) + 1 + (uint32_t)worker_random(w, others)) % warehouses(w);
}

static uint32_t customer_draw(struct worker *w, uint32_t warehouse, uint32_t district)
{
	return warehouse * BLOCK + CUSTOMER_AT + district * CUSTOMERS +
	       (uint32_t)worker_random(w, CUSTOMERS);
}

/* ---- new-order ------------------------------------------------------------------------------ */

static uint64_t line_of(uint32_t stock, uint32_t quantity)
{
	return (uint64_t)stock << 32 | quantity;
}

static bool reached(const struct txn *txn, uint32_t record)
{
	for (int i = 0; i < txn->n; i++)
		if (txn->set[i].record == record)
			return true;
	return false;
}

static void line_draw(struct worker *w)
{
	struct txn *txn = &w->txn;
	uint32_t stock;

	do
		stock = warehouse_draw(w, FOREIGN_SUPPLY) * BLOCK + STOCK_AT +
			(uint32_t)worker_random(w, ITEMS);
	while (reached(txn, stock));
	txn_reach(txn, stock, true);
	txn->row.line[txn->row.n++] = line_of(stock, 1 + (uint32_t)worker_random(w, QUANTITY_MAX));
}

static void order_draw(struct worker *w)
{
	uint32_t district = (uint32_t)worker_random(w, DISTRICTS), base = home(w) * BLOCK;
	uint64_t lines = LINES_MIN + worker_random(w, LINES_MAX - LINES_MIN + 1);
	struct txn *txn = &w->txn;

	txn_reach(txn, base, false);
	txn_reach(txn, base + DISTRICT_AT + district, true);
	txn_reach(txn, customer_draw(w, home(w), district), false);
	txn->doomed = worker_chance(w, DOOMED_PERCENT);
	txn->row_at = (home(w) * DISTRICTS + district) * ORDERS; /* of the first */
	while (txn->row.n < lines)
		line_draw(w);
}

/* Takes from the stock; returns the price without tax and discount. */
static int64_t stock_take(struct access *stock, uint64_t line, uint32_t home)
{
	int64_t quantity = (int64_t)(uint32_t)line;

	if (stock->value[STOCK_QUANTITY] < quantity + REFILL_BELOW)
		stock->value[STOCK_QUANTITY] += REFILL;
	stock->value[STOCK_QUANTITY] -= quantity;
	stock->value[STOCK_YTD] += quantity;
	stock->value[STOCK_ORDERS]++;
	stock->value[STOCK_FOREIGN] += stock->record / BLOCK != home;
	return quantity * price(stock->record % BLOCK - STOCK_AT);
}

static bool order_compute(struct worker *w)
{
	struct access *set = w->txn.set;
	struct row *row = &w->txn.row;
	int64_t sum = 0;

	row->number = (uint64_t)set[AT_DISTRICT].value[DISTRICT_NEXT]++;
	must(row->number <= ORDERS, "room for more orders of a district; take a shorter run");
	row->record = set[AT_CUSTOMER].record;
	for (uint64_t i = 0; i < row->n; i++)
		sum += stock_take(&set[AT_STOCK + i], row->line[i], home(w));
	row->amount = sum * (1000 + set[AT_WAREHOUSE].value[WAREHOUSE_TAX]) *
		      (100 - set[AT_CUSTOMER].value[CUSTOMER_DISCOUNT]) / 100000;
	w->txn.row_at += (uint32_t)row->number - 1;
	return !w->txn.doomed;
}

/* ---- payment -------------------------------------------------------------------------------- */

static void payment_draw(struct worker *w)
{
	uint32_t district = (uint32_t)worker_random(w, DISTRICTS), base = home(w) * BLOCK;
	struct txn *txn = &w->txn;
	uint32_t from = warehouse_draw(w, FOREIGN_CUSTOMER);

	txn_reach(txn, base, true);
	txn_reach(txn, base + DISTRICT_AT + district, true);
	txn_reach(txn, customer_draw(w, from, (uint32_t)worker_random(w, DISTRICTS)), true);
	txn->row.amount = AMOUNT_MIN + (int64_t)worker_random(w, AMOUNT_MAX - AMOUNT_MIN + 1);
	txn->row_at = w->shape.rows_of_blocks + (w->id - 1) * PAYMENTS; /* of the first */
}

static bool payment_compute(struct worker *w)
{
	struct access *set = w->txn.set;
	struct row *row = &w->txn.row;

	row->number = w->committed[PAYMENT] + 1;
	must(row->number <= PAYMENTS, "room for more payments of a worker; take a shorter run");
	row->record = set[AT_CUSTOMER].record;
	row->n = 1;
	row->line[0] = set[AT_DISTRICT].record;
	set[AT_WAREHOUSE].value[WAREHOUSE_YTD] += row->amount;
	set[AT_DISTRICT].value[DISTRICT_YTD] += row->amount;
	set[AT_CUSTOMER].value[CUSTOMER_BALANCE] -= row->amount;
	set[AT_CUSTOMER].value[CUSTOMER_PAID] += row->amount;
	set[AT_CUSTOMER].value[CUSTOMER_PAYMENTS]++;
	w->txn.row_at += (uint32_t)row->number - 1;
	return true;
}

/* ---- both ----------------------------------------------------------------------------------- */

static void tpcc_draw(struct worker *w)
{
	bool order = worker_chance(w, ORDER_PERCENT);

	w->txn = (struct txn){ .type = order ? NEW_ORDER : PAYMENT };
	order ? order_draw(w) : payment_draw(w);
}

static bool tpcc_compute(struct worker *w)
{
	return w->txn.type == NEW_ORDER ? order_compute(w) : payment_compute(w);
}

const struct workload tpcc = { .name = "tpcc",
			       .block = BLOCK,
			       .rows_of_block = DISTRICTS * ORDERS,
			       .rows_of_worker = PAYMENTS,
			       .start = tpcc_start,
			       .draw = tpcc_draw,
			       .compute = tpcc_compute };
