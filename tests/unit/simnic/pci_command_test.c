/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * simnic's PCI function before a driver, without QEMU: the init segment, commands, event queues,
 * faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "simnic/pci/command.h"
#include "simnic/pci/eq.h"
#include "simnic/pci/fault.h"
#include "simnic/pci/field.h"
#include "tests/unit/simnic/pci_driver.h"

enum {
	QUERY_HCA_CAP = 0x100,
	ENABLE_HCA = 0x104,
	MANAGE_PAGES = 0x108,
	SET_HCA_CAP = 0x109,
	QUERY_ISSI = 0x10a,
	DESTROY_EQ = 0x302,
	QUERY_PKEY = 0x765,
	ALLOC_PD = 0x800,
	DEALLOC_PD = 0x801,
	NO_SUCH_COMMAND = 0xfff,
	ISSI_BYTES = 112,
	EQE = 64,
	EQ_AT = DRIVER_FREE,
};
#define COMMANDS (1ull << SN_EVENT_COMMAND)
#define PORT	 (1ull << SN_EVENT_PORT_CHANGE)

static struct driver driver;

static int start(void **state)
{
	driver_start(&driver, false);
	return 0;
}

static int start_ethernet(void **state)
{
	driver_start(&driver, true);
	return 0;
}

static int finish(void **state)
{
	driver_stop(&driver);
	return 0;
}

static uint32_t read32(uint32_t at)
{
	uint32_t value = sn_pci_read(driver.pci, at, 4);

	return sn_load32(&value);
}

static const uint8_t *eqe(uint32_t n)
{
	return driver.memory + EQ_AT + n * EQE;
}

static uint32_t nop(void)
{
	return driver_command(&driver, QUERY_ISSI, 0, 16, ISSI_BYTES);
}

/*
 * The sizes of the queue, which the driver reads again in each recovery, outlive its own address
 * there.
 */
static void sizes_survive_the_queue_address(void **state)
{
	assert_int_equal(read32(0x14), DRIVER_QUEUE | SN_COMMANDS_LOG << 4 | SN_COMMAND_LOG);
	assert_int_equal(read32(0), 35u << 16 | 16);
}

static void health_counter_rises_and_cannot_be_written(void **state)
{
	uint32_t before = read32(0x1010);

	sn_pci_beat(driver.pci);
	sn_pci_write(driver.pci, 0x1010, 0, 4);
	assert_int_equal(read32(0x1010), before + 1);
}

static void answers_a_command(void **state)
{
	assert_int_equal(nop(), SN_OK);
	assert_int_equal(SN_GET(query_issi_out, driver.out, supported_issi_dw0), 3);
}

static void refuses_what_it_does_not_know(void **state)
{
	assert_int_equal(driver_command(&driver, NO_SUCH_COMMAND, 0, 16, 16), SN_BAD_OPCODE);
	assert_int_not_equal(sn_load32(driver.out + 4), 0);
}

static void pages_come_back_through_many_mailboxes(void **state)
{
	enum { PAGES = 300 };

	SN_SET(manage_pages_in, driver.in, input_num_entries, PAGES);
	for (uint32_t i = 0; i < PAGES; i++)
		sn_store64(driver.in + 16 + 8 * i, 0x1000ull * i);
	assert_int_equal(driver_command(&driver, MANAGE_PAGES, 1, 16 + 8 * PAGES, 16), SN_OK);
	SN_SET(manage_pages_in, driver.in, input_num_entries, PAGES + 1);
	assert_int_equal(driver_command(&driver, MANAGE_PAGES, 2, 16, 16 + 8 * (PAGES + 1)), SN_OK);
	assert_int_equal(SN_GET(manage_pages_out, driver.out, output_num_entries), PAGES);
	for (uint32_t i = 0; i < PAGES; i++)
		assert_int_equal(sn_load64(driver.out + 16 + 8 * i), 0x1000ull * (PAGES - 1 - i));
}

static void more_pages_than_sent_are_refused(void **state)
{
	SN_SET(manage_pages_in, driver.in, input_num_entries, 1 << 20);
	assert_int_equal(driver_command(&driver, MANAGE_PAGES, 1, 32, 16), SN_BAD_INPUT_LENGTH);
}

/*
 * A mailbox of another command, or in another order, is told in the entry, and nothing is executed.
 */
static void foreign_mailboxes_are_not_delivered(void **state)
{
	driver_ring(&driver, 0, MANAGE_PAGES, 1, 1100, 16);
	driver.memory[DRIVER_BOXES + 573] ^= 1;
	assert_true(driver_take(&driver, 0, 16));
	assert_int_equal(driver.memory[DRIVER_QUEUE + 63], 2 << 1);
	driver_ring(&driver, 0, MANAGE_PAGES, 1, 1100, 16);
	sn_store32(driver.memory + DRIVER_BOXES + 1024 + 568, 0);
	assert_true(driver_take(&driver, 0, 16));
	assert_int_equal(driver.memory[DRIVER_QUEUE + 63], 3 << 1);
}

static void endless_lengths_are_not_delivered(void **state)
{
	driver_ring(&driver, 0, MANAGE_PAGES, 1, 16, 16);
	SN_SET(cmd_queue_entry, driver.memory + DRIVER_QUEUE, input_length, UINT32_MAX);
	assert_true(driver_take(&driver, 0, 16));
	assert_int_equal(driver.memory[DRIVER_QUEUE + 63], 7 << 1);
}

static void capabilities_have_two_halves(void **state)
{
	SN_SET(cmd_hca_cap, driver.in + 16, log_max_qp, 5);
	assert_int_equal(driver_command(&driver, SET_HCA_CAP, 0, 16 + 4096, 16), SN_OK);
	assert_int_equal(driver_command(&driver, QUERY_HCA_CAP, 1, 16, 16 + 4096), SN_OK);
	assert_int_equal(SN_GET(cmd_hca_cap, driver.out + 16, log_max_qp), 5);
	assert_int_equal(driver_command(&driver, QUERY_HCA_CAP, 0, 16, 16 + 4096), SN_OK);
	assert_int_equal(SN_GET(cmd_hca_cap, driver.out + 16, log_max_qp), 17);
}

static void link_layer_is_a_capability(void **state)
{
	assert_int_equal(driver_command(&driver, QUERY_HCA_CAP, 0, 16, 16 + 4096), SN_OK);
	assert_int_equal(SN_GET(cmd_hca_cap, driver.out + 16, port_type), 1);
	assert_int_equal(SN_GET(cmd_hca_cap, driver.out + 16, roce), 1);
	assert_int_equal(SN_GET(cmd_hca_cap, driver.out + 16, ib_virt), 0);
}

static void a_number_is_not_given_again_at_once(void **state)
{
	uint32_t first;

	assert_int_equal(driver_command(&driver, ALLOC_PD, 0, 16, 16), SN_OK);
	first = sn_load32(driver.out + 8);
	sn_store32(driver.in + 8, first);
	assert_int_equal(driver_command(&driver, DEALLOC_PD, 0, 16, 16), SN_OK);
	sn_store32(driver.in + 8, first);
	assert_int_equal(driver_command(&driver, DEALLOC_PD, 0, 16, 16), SN_BAD_RESOURCE);
	assert_int_equal(driver_command(&driver, ALLOC_PD, 0, 16, 16), SN_OK);
	assert_int_not_equal(sn_load32(driver.out + 8), first);
}

static void pkeys_end_at_the_table(void **state)
{
	SN_SET(query_hca_vport_pkey_in, driver.in, pkey_index, 0);
	assert_int_equal(driver_command(&driver, QUERY_PKEY, 0, 16, 20), SN_OK);
	assert_int_equal(sn_load32(driver.out + 16), 0xffff);
	SN_SET(query_hca_vport_pkey_in, driver.in, pkey_index, 128);
	assert_int_equal(driver_command(&driver, QUERY_PKEY, 0, 16, 20), SN_BAD_INDEX);
}

/* The driver polls for the command that makes the EQ of commands; the next one is told there. */
static void commands_are_told_but_not_the_one_that_makes_the_eq(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, COMMANDS);

	assert_int_not_equal(eqn, 0);
	assert_int_equal(eqe(0)[1], 0);
	driver_eq_doorbell(&driver, eqn, 0, true);
	assert_int_equal(driver.interrupts, 0);
	assert_int_equal(nop(), SN_OK);
	assert_int_equal(eqe(0)[1], SN_EVENT_COMMAND);
	assert_int_equal(sn_load32(eqe(0) + 32), 1);
	assert_int_equal(driver.interrupts, 1);
	assert_int_equal(driver.last_vector, 3);
}

static void one_interrupt_until_armed_again(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, COMMANDS);

	driver_eq_doorbell(&driver, eqn, 0, true);
	nop();
	nop();
	assert_int_equal(driver.interrupts, 1);
	driver_eq_doorbell(&driver, eqn, 2, false);
	nop();
	assert_int_equal(driver.interrupts, 1);
	/* One is there that the driver has not seen: arming tells at once. */
	driver_eq_doorbell(&driver, eqn, 2, true);
	assert_int_equal(driver.interrupts, 2);
}

static void owner_bit_turns_with_each_round(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, COMMANDS);

	for (uint32_t n = 0; n < 20; n++) {
		nop();
		assert_int_equal(eqe(n % 8)[63], n / 8 & 1);
		driver_eq_doorbell(&driver, eqn, n + 1, false);
	}
}

static void a_full_eq_keeps_what_it_has(void **state)
{
	driver_eq(&driver, EQ_AT, 3, COMMANDS);
	for (uint32_t n = 0; n < 9; n++)
		nop();
	assert_int_equal(eqe(0)[63], 0);
	assert_int_equal(eqe(7)[1], SN_EVENT_COMMAND);
}

static void a_list_too_short_makes_no_eq(void **state)
{
	SN_SET(eqc, SN_AT(create_eq_in, driver.in, eq_context_entry), log_eq_size, 10);
	assert_int_equal(
		driver_command(&driver, 0x301, 0, SN_FIELD_BYTE(create_eq_in, pas) + 8, 16),
		SN_BAD_PARAM);
}

/* Memory of the last life is the kernel's again: not a byte may arrive there. */
static void a_new_life_forgets_the_queues(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, COMMANDS | PORT);

	assert_int_equal(driver_command(&driver, ENABLE_HCA, 0, 16, 16), SN_OK);
	memset(driver.memory + EQ_AT, 0xaa, 8 * EQE);
	driver_eq_doorbell(&driver, eqn, 0, true);
	nop();
	assert_int_equal(sn_pci_fault(driver.pci, "port-down"), 0);
	for (uint32_t i = 0; i < 8 * EQE; i++)
		assert_int_equal(driver.memory[EQ_AT + i], 0xaa);
}

static void reset_forgets_queues_and_rung_commands(void **state)
{
	driver_eq(&driver, EQ_AT, 3, COMMANDS | PORT);
	driver_ring(&driver, 1, QUERY_ISSI, 0, 16, ISSI_BYTES);
	sn_pci_reset(driver.pci);
	memset(driver.memory + EQ_AT, 0xaa, 8 * EQE);
	assert_false(driver_take(&driver, 1, 16));
	sn_pci_fault(driver.pci, "port-down");
	assert_int_equal(eqe(0)[1], 0xaa);
	assert_int_equal(read32(0x14) >> 12, 0);
}

static void a_destroyed_eq_is_told_nothing(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, PORT);

	SN_SET(destroy_eq_in, driver.in, eq_number, eqn);
	assert_int_equal(driver_command(&driver, DESTROY_EQ, 0, 16, 16), SN_OK);
	SN_SET(destroy_eq_in, driver.in, eq_number, eqn);
	assert_int_equal(driver_command(&driver, DESTROY_EQ, 0, 16, 16), SN_BAD_RESOURCE);
	sn_pci_fault(driver.pci, "port-down");
	assert_int_equal(eqe(0)[1], 0);
}

static void a_cable_is_a_port_event(void **state)
{
	driver_eq(&driver, EQ_AT, 3, PORT);
	assert_int_equal(sn_pci_fault(driver.pci, "port-down"), 0);
	assert_int_equal(eqe(0)[1], SN_EVENT_PORT_CHANGE);
	assert_int_equal(eqe(0)[3], SN_PORT_DOWN);
	assert_int_equal(eqe(0)[40], 0x10);
	assert_int_equal(sn_pci_fault(driver.pci, "port-up"), 0);
	assert_int_equal(eqe(1)[3], SN_PORT_ACTIVE);
}

static void a_syndrome_asks_for_a_reset_only_when_fatal(void **state)
{
	assert_int_equal(sn_pci_fault(driver.pci, "syndrome=7"), 0);
	assert_int_equal(read32(0x23c) >> 16 & 0xff, 7);
	assert_int_equal(read32(0x238) >> 31, 0);
	assert_int_equal(sn_pci_fault(driver.pci, "fatal"), 0);
	assert_int_equal(read32(0x238) >> 31, 1);
	assert_int_equal(driver_command(&driver, ENABLE_HCA, 0, 16, 16), SN_OK);
	assert_int_equal(read32(0x238), 0);
	assert_int_equal(read32(0x23c), 0);
}

static void what_hangs_is_done_on_resume(void **state)
{
	uint32_t beats = read32(0x1010);

	assert_int_equal(sn_pci_fault(driver.pci, "hang"), 0);
	driver_ring(&driver, 2, QUERY_ISSI, 0, 16, ISSI_BYTES);
	sn_pci_beat(driver.pci);
	assert_false(driver_take(&driver, 2, ISSI_BYTES));
	assert_int_equal(read32(0x1010), beats);
	assert_int_equal(sn_pci_fault(driver.pci, "resume"), 0);
	assert_int_equal(driver.work_ms, 0);
	assert_true(driver_take(&driver, 2, ISSI_BYTES));
	assert_int_equal(driver.out[0], SN_OK);
}

static void a_commands_timeout_outlives_a_reset(void **state)
{
	assert_int_equal(sn_pci_fault(driver.pci, "command-timeout=70000"), 0);
	assert_int_equal(read32(0xff8), 70000);
	sn_pci_reset(driver.pci);
	assert_int_equal(read32(0xff8), 70000);
}

/* As where it hangs: an entry that the event queue lacks would stop that queue for ever. */
static void what_cannot_reach_memory_is_done_later(void **state)
{
	sn_pci_bus_master(driver.pci, false);
	driver_ring(&driver, 2, QUERY_ISSI, 0, 16, ISSI_BYTES);
	assert_false(driver_take(&driver, 2, ISSI_BYTES));
	sn_pci_bus_master(driver.pci, true);
	assert_int_equal(driver.work_ms, 0);
	assert_true(driver_take(&driver, 2, ISSI_BYTES));
	assert_int_equal(driver.out[0], SN_OK);
}

static void slow_commands_ask_for_their_time(void **state)
{
	assert_int_equal(sn_pci_fault(driver.pci, "slow=250"), 0);
	driver_ring(&driver, 0, QUERY_ISSI, 0, 16, ISSI_BYTES);
	assert_int_equal(driver.work_ms, 250);
	assert_int_equal(sn_pci_fault(driver.pci, "heal"), 0);
	assert_true(driver_take(&driver, 0, ISSI_BYTES));
}

static void dead_reads_as_ones_and_writes_nothing(void **state)
{
	driver_eq(&driver, EQ_AT, 3, COMMANDS | PORT);
	driver_ring(&driver, 0, QUERY_ISSI, 0, 16, ISSI_BYTES);
	assert_int_equal(sn_pci_fault(driver.pci, "dead"), 0);
	assert_int_equal(sn_pci_read(driver.pci, 0, 4), UINT32_MAX);
	assert_int_equal(sn_pci_read(driver.pci, 0x1010, 2), 0xffff);
	assert_false(driver_take(&driver, 0, ISSI_BYTES));
	sn_pci_fault(driver.pci, "port-down");
	assert_int_equal(eqe(0)[1], 0);
	assert_int_equal(sn_pci_fault(driver.pci, "alive"), 0);
	assert_int_equal(read32(0), 35u << 16 | 16);
}

static void touch_nothing(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(driver.memory[i], 0x5a);
}

/* A driver that did not see the reset rings, for a queue of which the function knows nothing. */
static void a_doorbell_without_a_queue_touches_no_memory(void **state)
{
	assert_int_equal(sn_pci_fault(driver.pci, "dead"), 0);
	assert_int_equal(sn_pci_fault(driver.pci, "alive"), 0);
	memset(driver.memory, 0x5a, DRIVER_QUEUE);
	driver_ring(&driver, 0, QUERY_ISSI, 0, 16, ISSI_BYTES);
	assert_false(driver_take(&driver, 0, 16));
	touch_nothing(DRIVER_QUEUE);
	driver_set_queue(&driver);
	assert_int_equal(nop(), SN_OK);
}

static void a_lost_interrupt_leaves_the_event(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, COMMANDS);

	driver_eq_doorbell(&driver, eqn, 0, true);
	assert_int_equal(sn_pci_fault(driver.pci, "lose-interrupts"), 0);
	nop();
	assert_int_equal(eqe(0)[1], SN_EVENT_COMMAND);
	assert_int_equal(driver.interrupts, 0);
	assert_int_equal(sn_pci_fault(driver.pci, "heal"), 0);
	driver_eq_doorbell(&driver, eqn, 1, true);
	nop();
	assert_int_equal(driver.interrupts, 1);
}

static void a_lost_event_leaves_the_answer(void **state)
{
	uint32_t eqn = driver_eq(&driver, EQ_AT, 3, COMMANDS);

	driver_eq_doorbell(&driver, eqn, 0, true);
	assert_int_equal(sn_pci_fault(driver.pci, "lose-events"), 0);
	assert_int_equal(nop(), SN_OK);
	assert_int_equal(eqe(0)[1], 0);
	assert_int_equal(driver.interrupts, 0);
}

static void words_of_faults_are_checked(void **state)
{
	static const char *const wrong[] = { "",      "port",	  "port-downs", "port-down=1",
					     "slow",  "slow=",	  "slow=x",	"syndrome=1x",
					     "event", "event=1.", "hang=3" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_not_equal(sn_pci_fault(driver.pci, wrong[i]), 0);
	driver_eq(&driver, EQ_AT, 3, PORT);
	assert_int_equal(sn_pci_fault(driver.pci, "event=9.7"), 0);
	assert_int_equal(eqe(0)[3], SN_PORT_PKEY);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sizes_survive_the_queue_address),
		CASE(health_counter_rises_and_cannot_be_written),
		CASE(answers_a_command),
		CASE(refuses_what_it_does_not_know),
		CASE(pages_come_back_through_many_mailboxes),
		CASE(more_pages_than_sent_are_refused),
		CASE(foreign_mailboxes_are_not_delivered),
		CASE(endless_lengths_are_not_delivered),
		CASE(capabilities_have_two_halves),
		cmocka_unit_test_setup_teardown(link_layer_is_a_capability, start_ethernet, finish),
		CASE(a_number_is_not_given_again_at_once),
		CASE(pkeys_end_at_the_table),
		CASE(commands_are_told_but_not_the_one_that_makes_the_eq),
		CASE(one_interrupt_until_armed_again),
		CASE(owner_bit_turns_with_each_round),
		CASE(a_full_eq_keeps_what_it_has),
		CASE(a_list_too_short_makes_no_eq),
		CASE(a_new_life_forgets_the_queues),
		CASE(reset_forgets_queues_and_rung_commands),
		CASE(a_destroyed_eq_is_told_nothing),
		CASE(a_cable_is_a_port_event),
		CASE(a_syndrome_asks_for_a_reset_only_when_fatal),
		CASE(what_hangs_is_done_on_resume),
		CASE(a_commands_timeout_outlives_a_reset),
		CASE(what_cannot_reach_memory_is_done_later),
		CASE(slow_commands_ask_for_their_time),
		CASE(dead_reads_as_ones_and_writes_nothing),
		CASE(a_doorbell_without_a_queue_touches_no_memory),
		CASE(a_lost_interrupt_leaves_the_event),
		CASE(a_lost_event_leaves_the_answer),
		CASE(words_of_faults_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
