/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A bridge behind an IOMMU: what its guest has unmapped is out of reach for every access, and each
 * access to it is told. One NIC, whose queue pair is connected to itself.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bridge_guest.h"
#include "simnic/fabric/fabric.h"
#include "simnic/pci/bridge_space.h"

enum {
	PAGES = 4,
	BYTES = PAGES * GUEST_PAGE,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
/* processors that do not say what a fault was count it as a write */
#if defined(__x86_64__)
	READS_ARE_KNOWN = 1,
#else
	READS_ARE_KNOWN = 0,
#endif
};

#define START 0x7f1200000000ull

static char fabric_name[32];
static struct guest guest;
static struct guest_cq cq;
static struct guest_qp qp;
static struct guest_buffer from, to;
static uint32_t from_key, to_key;

static void up(void)
{
	guest_start_translated(&guest, fabric_name, 0, 0);
	from = guest_pages(&guest, PAGES);
	to = guest_pages(&guest, PAGES);
	guest_cq_make(&guest, &cq, 1);
	guest_qp_make(&guest, &qp, SN_BRIDGE_RC, &cq, 0);
	from_key = guest_key(&guest, &from, START, BYTES, ALL, 0x5a);
	to_key = guest_key(&guest, &to, START, BYTES, ALL, 0xa5);
	guest_connect(&qp, guest.bridge, qp.number);
	guest_fill(&guest, &from, BYTES, 1);
	guest_fill(&guest, &to, BYTES, 2);
}

/* Not a fixture: the handler of stray accesses has to come behind that of cmocka's test. */
static void with_guest(void **state)
{
	void (*test)(void) = (void (*)(void)) * state;

	up();
	test();
	guest_stop(&guest);
}

static struct guest_completion write_all(void)
{
	guest_post(&qp, &(struct guest_request){ .opcode = MLX5_OPCODE_RDMA_WRITE,
						 .rkey = to_key,
						 .remote = START,
						 .lkey = from_key,
						 .local = START,
						 .bytes = BYTES });
	return guest_wait(&cq);
}

static void unmap(uint64_t page)
{
	sn_bridge_space_unmap(guest.bridge, page, GUEST_PAGE);
}

static void assert_stray(uint64_t page, bool write)
{
	struct sn_bridge_stray stray;

	assert_true(sn_bridge_space_take(guest.bridge, &stray));
	assert_int_equal(stray.at, page);
	assert_int_equal(stray.bytes, GUEST_PAGE);
	assert_int_equal(stray.write, write || !READS_ARE_KNOWN);
}

/* Until the data path has met one; the test fails after some seconds. */
static void await_stray(void)
{
	for (int i = 0; i < 20000 && !guest.strays; i++)
		usleep(1000);
	assert_true(guest.strays > 0);
}

static void assert_no_stray(void)
{
	struct sn_bridge_stray stray;

	assert_false(sn_bridge_space_take(guest.bridge, &stray));
}

/* Whether a page of a buffer has the bytes of guest_fill(). */
static bool page_holds(const struct guest_buffer *buffer, uint32_t page, uint8_t seed)
{
	uint8_t held[GUEST_PAGE];

	memcpy(held, guest_at(&guest, buffer, page * GUEST_PAGE), GUEST_PAGE);
	guest_fill(&guest, buffer, BYTES, seed);
	return !memcmp(held, guest_at(&guest, buffer, page * GUEST_PAGE), GUEST_PAGE);
}

static void traffic_is_no_stray(void)
{
	assert_int_equal(write_all().opcode, MLX5_CQE_REQ);
	assert_true(guest_holds(&guest, &to, BYTES, 1));
	assert_no_stray();
	assert_int_equal(guest.strays, 0);
}

static void a_write_to_an_unmapped_page_is_lost_and_told(void)
{
	unmap(to.page[2]);
	assert_int_equal(write_all().opcode, MLX5_CQE_REQ);
	assert_stray(to.page[2], true);
	assert_no_stray();
	assert_true(guest.strays > 0);
	assert_true(page_holds(&to, 2, 2));
	assert_true(write_all().opcode == MLX5_CQE_REQ);
	assert_stray(to.page[2], true); /* each time: the page of zeros was for once */
}

/* Nothing is sent in its place; where the processor does not tell reads from writes, zeros are. */
static void a_read_of_an_unmapped_page_ends_in_an_error_and_is_told(void)
{
	unmap(from.page[1]);
	assert_int_equal(write_all().opcode, READS_ARE_KNOWN ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
	assert_stray(from.page[1], false);
	assert_no_stray();
	assert_int_equal(page_holds(&to, 1, 2), READS_ARE_KNOWN);
}

static void a_page_that_may_be_read_is_not_written(void)
{
	guest_map(&guest, from.page[0], GUEST_PAGE, false);
	guest_map(&guest, to.page[0], GUEST_PAGE, false);
	write_all();
	assert_stray(to.page[0], true);
	assert_no_stray();
	assert_true(page_holds(&to, 0, 2));
}

static void what_is_mapped_again_is_reached_again(void)
{
	for (int i = 0; i < PAGES; i++)
		unmap(to.page[i]);
	for (int i = 0; i < PAGES; i++)
		guest_map(&guest, to.page[i], GUEST_PAGE, true);
	write_all();
	assert_true(guest_holds(&guest, &to, BYTES, 1));
	assert_no_stray();
}

/* The guest gives the DMA address to another page: nothing of the old translation is kept. */
static void a_page_mapped_elsewhere_takes_the_writes(void)
{
	struct guest_buffer other = guest_pages(&guest, 1);
	struct sn_bridge_mapping mapping = { to.page[3], GUEST_PAGE,
					     guest_ram_of(&guest, other.page[0]), true };

	unmap(to.page[3]);
	assert_int_equal(sn_bridge_space_map(guest.bridge, &mapping), 0);
	write_all();
	assert_no_stray();
	assert_memory_equal(guest_at(&guest, &other, 0), guest_at(&guest, &from, 3 * GUEST_PAGE),
			    GUEST_PAGE);
	assert_true(page_holds(&to, 3, 2));
}

static void a_ring_that_is_unmapped_is_told(void)
{
	struct sn_bridge_stray stray;
	bool met = false;

	unmap(cq.ring.page[0]);
	guest_post(&qp, &(struct guest_request){ .opcode = MLX5_OPCODE_RDMA_WRITE,
						 .rkey = to_key,
						 .remote = START,
						 .lkey = from_key,
						 .local = START,
						 .bytes = 64 });
	await_stray();
	while (sn_bridge_space_take(guest.bridge, &stray))
		met |= stray.at == cq.ring.page[0];
	assert_true(met);
}

/* A peer fetches long payload itself, be it of another process: here, one that never answers. */
static void what_a_peer_is_to_fetch_is_read_before(void)
{
	struct guest_qp lonely;

	guest_qp_make(&guest, &lonely, SN_BRIDGE_RC, &cq, 0);
	guest_connect(&lonely, guest.bridge, 0xabcdef);
	unmap(from.page[1]);
	guest_post(&lonely, &(struct guest_request){ .opcode = MLX5_OPCODE_RDMA_WRITE,
						     .rkey = to_key,
						     .remote = START,
						     .lkey = from_key,
						     .local = START,
						     .bytes = BYTES });
	await_stray();
	assert_stray(from.page[1], false);
}

static void all_is_unmapped_at_once(void)
{
	sn_bridge_space_unmap(guest.bridge, 0, UINT64_MAX);
	assert_int_equal(sn_bridge_go_astray(guest.bridge, from.page[0], true), 0);
	assert_stray(from.page[0], true);
	assert_true(page_holds(&from, 0, 1));
}

static void the_data_path_goes_astray_on_demand(void)
{
	const uint64_t nowhere = 0x12345000;

	assert_int_equal(sn_bridge_go_astray(guest.bridge, nowhere + 8, true), 0);
	assert_stray(nowhere, true);
	assert_int_equal(sn_bridge_go_astray(guest.bridge, nowhere + 8, false), 0);
	assert_stray(nowhere, false);
	assert_int_equal(sn_bridge_go_astray(guest.bridge, nowhere + 4, true), -EINVAL);
	assert_int_equal(sn_bridge_go_astray(guest.bridge, SN_BRIDGE_SPACE_BYTES, true), -EINVAL);
	assert_int_equal(sn_bridge_go_astray(guest.bridge, from.page[0], true), 0);
	assert_no_stray();
}

static void mappings_are_checked(void)
{
	const struct sn_bridge_mapping wrong[] = {
		{ 0, 0, 0, true },
		{ 0, GUEST_PAGE / 2, 0, true },
		{ 8, GUEST_PAGE, 0, true },
		{ 0, GUEST_PAGE, 8, true },
		{ SN_BRIDGE_SPACE_BYTES, GUEST_PAGE, 0, true },
		{ 0, GUEST_PAGE, (uint64_t)GUEST_PAGES * GUEST_PAGE, true },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(sn_bridge_space_map(guest.bridge, &wrong[i]), -EINVAL);
}

/* A view has its place again when it has ended, and more than one can be had at a time. */
static void views_come_and_go(void)
{
	struct sn_bridge_pages list = guest_list(&from);
	uint8_t *first = NULL;

	for (int i = 0; i < 100; i++) {
		uint8_t *a = sn_bridge_map(guest.bridge, &list, BYTES);
		uint8_t *b = sn_bridge_map(guest.bridge, &list, BYTES);

		assert_non_null(a);
		assert_non_null(b);
		assert_ptr_not_equal(a, b);
		assert_memory_equal(a, b, BYTES);
		assert_true(!first || a == first);
		first = a;
		sn_bridge_unmap(guest.bridge, b, BYTES);
		sn_bridge_unmap(guest.bridge, a, BYTES);
	}
}

static int start(void **state)
{
	struct sn_fabric_config config = { .n_hosts = 1, .n_nics = 1, .link_layer = SN_LINK_IB };

	snprintf(fabric_name, sizeof(fabric_name), "space-%d", (int)getpid());
	return sn_fabric_create(fabric_name, &config);
}

static int stop(void **state)
{
	return sn_fabric_destroy(fabric_name);
}

#define T(what)                                                                                    \
	{                                                                                          \
#what, with_guest, NULL, NULL, (void *)(what)                                      \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(traffic_is_no_stray),
		T(a_write_to_an_unmapped_page_is_lost_and_told),
		T(a_read_of_an_unmapped_page_ends_in_an_error_and_is_told),
		T(a_page_that_may_be_read_is_not_written),
		T(what_is_mapped_again_is_reached_again),
		T(a_page_mapped_elsewhere_takes_the_writes),
		T(a_ring_that_is_unmapped_is_told),
		T(what_a_peer_is_to_fetch_is_read_before),
		T(all_is_unmapped_at_once),
		T(the_data_path_goes_astray_on_demand),
		T(mappings_are_checked),
		T(views_come_and_go),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
