/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The root key on a software NIC: which places of it take what is written, while slots are bound and unbound. All of memory is
 * looked at behind each packet. One argument: eth or ib.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sdr/nic/nic.h"
#include "tests/lib/simnic_rig.h"

enum {
	SLOTS = 4,
	GENERATIONS = 2,
	PLACES = SLOTS * GENERATIONS,
	MOST = 6000, /* bytes of a message */
	AREA = 8192, /* of a buffer, with some around it */
	MEM = SLOTS * AREA,
	OUT = 4096,
	ROUNDS = 200,
};

static struct sdr_nic nic;
static struct sdr_channel channel;
static struct sdr_slots slots;
static uint8_t *mem, *seen;
static struct ibv_mr *mr;
static uint32_t imm;

/* A slot, as it must be. */
static struct {
	bool bound;
	uint32_t generation, length, at;
	struct sdr_slot_event told;
} model[SLOTS];

/* ---- setup ----------------------------------------------------------------------------------- */

static int open_slots(uint32_t n, uint64_t slot_size)
{
	slots = (struct sdr_slots){ .ops = &sdr_slots_root,
				    .nics = &nic,
				    .n_devices = 1,
				    .n_nics = 1,
				    .n = n,
				    .generations = GENERATIONS,
				    .slot_size = slot_size };
	return slots.ops->open(&slots);
}

static int start(void **state)
{
	struct sdr_peer self;

	memset(model, 0, sizeof(model));
	if (sdr_nic_open(&nic, "mlx5_1", 1, 0) ||
	    sdr_channel_open(&channel, &nic, SDR_SEND_DEPTH, 64))
		return -1;
	self = (struct sdr_peer){ .gid = nic.gid, .lid = nic.lid, .mtu = nic.mtu };
	if (sdr_channel_connect(&channel, &nic, &self, channel.qp->qp_num))
		return -1;
	mem = mmap(NULL, MEM + OUT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	seen = calloc(1, MEM);
	mr = sdr_region_reg(&nic, mem, MEM + OUT, false);
	return mr && seen ? open_slots(SLOTS, AREA) : -1;
}

static int finish(void **state)
{
	if (slots.priv)
		slots.ops->close(&slots);
	sdr_channel_close(&channel);
	ibv_dereg_mr(mr);
	munmap(mem, MEM + OUT);
	free(seen);
	sdr_nic_close(&nic);
	return 0;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static struct sdr_slot_event await(uint32_t slot, bool bound)
{
	struct sdr_slot_event e;

	for (int i = 0; i < 20000; i++) {
		if (slots.ops->poll(&slots, &e, 1)) {
			assert_int_equal(e.slot, slot);
			assert_int_equal(e.bound, bound);
			return e;
		}
		usleep(100);
	}
	fail_msg("no event of slot %u", slot);
	return e;
}

static void bind(uint32_t slot, uint32_t generation, uint32_t at, uint32_t length)
{
	assert_int_equal(slots.ops->bind(&slots, slot, generation, &mr,
					 (uintptr_t)mem + slot * AREA + at, length),
			 0);
	model[slot].told = await(slot, true);
	model[slot].bound = true;
	model[slot].generation = generation;
	model[slot].at = at;
	model[slot].length = length;
}

static void unbind(uint32_t slot)
{
	assert_int_equal(slots.ops->unbind(&slots, slot), 0);
	await(slot, false);
	model[slot].bound = false;
}

static void expect(uint32_t slot, uint32_t generation, uint32_t offset, uint32_t length)
{
	if (!model[slot].bound || model[slot].generation != generation ||
	    offset >= model[slot].length)
		return;
	if (length > model[slot].length - offset)
		length = model[slot].length - offset;
	memset(seen + slot * AREA + model[slot].at + offset, (uint8_t)imm, length);
}

/* A packet, whose receive completes wherever it is for; memory is as the model has it. */
static void write_to(uint64_t place, uint32_t offset, uint32_t length, uint32_t rkey, uint64_t step)
{
	struct sdr_packet_out p = { .addr = (uintptr_t)mem + MEM,
				    .raddr = place * step + offset,
				    .length = length,
				    .lkey = mr->lkey,
				    .rkey = rkey,
				    .imm = ++imm };
	uint32_t imms[SDR_BURST];
	int n = 0;

	memset(mem + MEM, (uint8_t)imm, OUT);
	assert_int_equal(sdr_channel_post(&channel, &p, 1), 0);
	for (int i = 0; i < 20000 && !n; i++, usleep(100))
		n = sdr_channel_poll(&channel, imms);
	assert_int_equal(n, 1);
	assert_int_equal(imms[0], imm);
	while (channel.completed != channel.posted)
		assert_true(sdr_channel_reap(&channel) >= 0);
	expect((uint32_t)place % SLOTS, (uint32_t)place / SLOTS, offset, length);
	assert_memory_equal(mem, seen, MEM);
}

/* To its beginning, across the end of its message, and behind it. */
static void write_everywhere(uint32_t rkey, uint64_t step)
{
	for (uint32_t place = 0; place < PLACES; place++) {
		write_to(place, 0, 1000, rkey, step);
		write_to(place, AREA - OUT, OUT, rkey, step);
	}
}

/* ---- tests ----------------------------------------------------------------------------------- */

static uint64_t step_of(uint32_t *rkey)
{
	uint64_t from, to;

	bind(0, 0, 0, 1);
	bind(1, 0, 0, 1);
	from = model[0].told.addr;
	to = model[1].told.addr;
	*rkey = model[0].told.rkeys[0];
	assert_int_equal(from, 0);
	assert_int_equal(model[1].told.rkeys[0], *rkey);
	assert_true(to >= AREA);
	unbind(0);
	unbind(1);
	return to;
}

static void open_place_alone_takes_what_is_written(void **state)
{
	uint32_t rkey;
	uint64_t step = step_of(&rkey);

	write_everywhere(rkey, step);
	bind(1, 0, 100, 5000);
	assert_int_equal(model[1].told.addr, step);
	write_everywhere(rkey, step);
	unbind(1);
	write_everywhere(rkey, step);
	bind(1, 1, 7, MOST);
	assert_int_equal(model[1].told.addr, (SLOTS + 1) * step);
	write_everywhere(rkey, step);
}

/* It shares its four entries with the one beside it. */
static void neighbours_do_not_matter(void **state)
{
	uint32_t rkey;
	uint64_t step = step_of(&rkey);

	for (uint32_t slot = 0; slot < SLOTS; slot++)
		bind(slot, 1, slot, MOST - slot);
	write_everywhere(rkey, step);
	unbind(2);
	unbind(0);
	write_everywhere(rkey, step);
	bind(0, 0, 50, 60);
	write_everywhere(rkey, step);
}

static void any_order_of_changes(void **state)
{
	const char *given = getenv("SDR_ROOT_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)getpid();
	uint32_t rkey;
	uint64_t step = step_of(&rkey);

	printf("SDR_ROOT_SEED=%u\n", seed);
	srand(seed);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t slot = (uint32_t)rand() % SLOTS;

		if (model[slot].bound)
			unbind(slot);
		else
			bind(slot, (uint32_t)rand() % GENERATIONS, (uint32_t)rand() % 100,
			     1 + (uint32_t)rand() % MOST);
		write_to((uint32_t)rand() % PLACES, (uint32_t)rand() % AREA,
			 1 + (uint32_t)rand() % 4000, rkey, step);
		if (i % 20 == 0)
			write_everywhere(rkey, step);
	}
}

/* All are asked for before any is waited for. */
static void changes_under_way_are_awaited_one_by_one(void **state)
{
	struct sdr_slot_event e[SLOTS];
	uint32_t n = 0, bits = 0;

	for (uint32_t slot = 0; slot < SLOTS; slot++)
		assert_int_equal(
			slots.ops->bind(&slots, slot, 0, &mr, (uintptr_t)mem + slot * AREA, MOST),
			0);
	for (int i = 0; i < 20000 && n < SLOTS; i++, usleep(100))
		n += (uint32_t)slots.ops->poll(&slots, e + n, SLOTS - n);
	assert_int_equal(n, SLOTS);
	for (uint32_t i = 0; i < SLOTS; i++)
		bits |= 1u << e[i].slot;
	assert_int_equal(bits, (1u << SLOTS) - 1);
}

static void what_it_cannot_do_is_an_error(void **state)
{
	slots.ops->close(&slots);
	assert_int_equal(open_slots(1 << 15, AREA), -EINVAL);
	assert_null(slots.priv);
	assert_int_equal(open_slots(SLOTS, 1ull << 31), -EMSGSIZE);
	assert_null(slots.priv);
	assert_int_equal(open_slots(1 << 10, AREA), 0);
}

/* A driver that takes no commands of a program's own. */
static void without_devx_there_is_none(void **state)
{
	finish(NULL);
	setenv("SIMNIC_DEVX", "0", 1);
	assert_int_equal(start(NULL), -EOPNOTSUPP);
	assert_null(slots.priv);
	setenv("SIMNIC_DEVX", "1", 1);
}

static int tests(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, start, finish)
	static const struct CMUnitTest list[] = {
		WITH(open_place_alone_takes_what_is_written),
		WITH(neighbours_do_not_matter),
		WITH(any_order_of_changes),
		WITH(changes_under_way_are_awaited_one_by_one),
		WITH(what_it_cannot_do_is_an_error),
		WITH(without_devx_there_is_none),
	};

	return cmocka_run_group_tests_name("root key", list, NULL, NULL);
}

int main(int argc, char **argv)
{
	setenv("SIMNIC_DEVX", "1", 1);
	return rig_main(argc, argv, tests);
}
