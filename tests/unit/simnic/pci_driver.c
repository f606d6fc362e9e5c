/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a driver does, as little of it as tests need: see pci_driver.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "simnic/pci/field.h"
#include "tests/unit/simnic/pci_driver.h"

enum {
	ENTRY = 64,
	INLINE = 16,
	BOX = 1024,
	DATA = 512,
	NEXT = 560,
	NUMBER = 568,
	TOKEN = 573,
	UAR = 16
};
enum {
	QUEUE_HIGH = 0x10,
	QUEUE_LOW = 0x14,
	DOORBELL = 0x18,
	EQ_ARM = 0x40,
	EQ_CONSUME = 0x48,
	CREATE_EQ = 0x301
};

static bool inside(struct driver *driver, uint64_t at, uint32_t bytes)
{
	if (at + bytes <= DRIVER_MEMORY)
		return true;
	driver->bad_accesses++;
	return false;
}

static void dma_read(void *self, uint64_t at, void *to, uint32_t bytes)
{
	struct driver *driver = self;

	if (inside(driver, at, bytes))
		memcpy(to, driver->memory + at, bytes);
}

static void dma_write(void *self, uint64_t at, const void *from, uint32_t bytes)
{
	struct driver *driver = self;

	if (inside(driver, at, bytes))
		memcpy(driver->memory + at, from, bytes);
}

static void interrupt(void *self, uint32_t vector)
{
	struct driver *driver = self;

	driver->interrupts++;
	driver->last_vector = vector;
}

static void work_in(void *self, uint32_t ms)
{
	struct driver *driver = self;

	driver->work_wanted++;
	driver->work_ms = ms;
}

static void wake(void *self)
{
	struct driver *driver = self;

	driver->wakes++;
}

static void stray(void *self, uint64_t at, bool write)
{
	struct driver *driver = self;

	driver->strays++;
	driver->last_stray = at;
	driver->stray_wrote = write;
}

static void say(void *self, const char *line)
{
}

/* A register: the bus has the lowest byte first, registers have the highest first. */
static void write32(struct driver *driver, uint64_t at, uint32_t value)
{
	uint8_t bytes[4];
	uint32_t word;

	sn_store32(bytes, value);
	memcpy(&word, bytes, 4);
	sn_pci_write(driver->pci, at, word, 4);
}

void driver_set_queue(struct driver *driver)
{
	write32(driver, QUEUE_HIGH, 0);
	write32(driver, QUEUE_LOW, DRIVER_QUEUE);
}

void driver_start(struct driver *driver, bool ethernet)
{
	struct sn_pci_host host = { driver,  dma_read, dma_write, interrupt,
				    work_in, wake,     stray,	  say };
	struct sn_pci_identity identity = { .ethernet = ethernet,
					    .guid = 0x1122334455667788,
					    .lid = 7 };

	memset(driver, 0, sizeof(*driver));
	driver->token = 0x55;
	driver->pci = sn_pci_new(&host, &identity);
	assert_non_null(driver->pci);
	sn_pci_bus_master(driver->pci, true);
	driver->wakes = 0;
	driver_set_queue(driver);
}

void driver_stop(struct driver *driver)
{
	sn_pci_free(driver->pci);
	assert_int_equal(driver->bad_accesses, 0);
}

static void make_boxes(struct driver *driver, uint64_t at, uint32_t bytes, const uint8_t *from)
{
	for (uint32_t done = INLINE, n = 0; done < bytes; done += DATA, n++, at += BOX) {
		uint8_t *box = driver->memory + at;

		memset(box, 0, BOX);
		memcpy(box, from + done, DATA);
		sn_store64(box + NEXT, at + BOX);
		sn_store32(box + NUMBER, n);
		box[TOKEN] = driver->token;
	}
}

void driver_ring(struct driver *driver, uint32_t index, uint16_t opcode, uint16_t op_mod,
		 uint32_t in_bytes, uint32_t out_bytes)
{
	static const uint8_t nothing[DRIVER_MAX];
	uint8_t *entry = driver->memory + DRIVER_QUEUE + index * ENTRY;

	sn_store32(driver->in, (uint32_t)opcode << 16);
	sn_store32(driver->in + 4, op_mod);
	memset(entry, 0, ENTRY);
	SN_SET(cmd_queue_entry, entry, type, 7);
	SN_SET(cmd_queue_entry, entry, input_length, in_bytes);
	SN_SET(cmd_queue_entry, entry, output_length, out_bytes);
	SN_SET(cmd_queue_entry, entry, token, driver->token);
	SN_SET(cmd_queue_entry, entry, ownership, 1);
	memcpy(SN_AT(cmd_queue_entry, entry, command_input_inline_data), driver->in, INLINE);
	make_boxes(driver, DRIVER_BOXES, in_bytes, driver->in);
	make_boxes(driver, DRIVER_OUT_BOXES, out_bytes, nothing);
	sn_store64(SN_AT(cmd_queue_entry, entry, input_mailbox_pointer_63_32), DRIVER_BOXES);
	sn_store64(SN_AT(cmd_queue_entry, entry, output_mailbox_pointer_63_32), DRIVER_OUT_BOXES);
	write32(driver, DOORBELL, 1u << index);
}

bool driver_take(struct driver *driver, uint32_t index, uint32_t out_bytes)
{
	uint8_t *entry = driver->memory + DRIVER_QUEUE + index * ENTRY;
	uint64_t at = DRIVER_OUT_BOXES;

	sn_pci_work(driver->pci);
	if (SN_GET(cmd_queue_entry, entry, ownership))
		return false;
	memcpy(driver->out, SN_AT(cmd_queue_entry, entry, command_output_inline_data), INLINE);
	for (uint32_t done = INLINE; done < out_bytes; done += DATA, at += BOX) {
		assert_int_equal(driver->memory[at + TOKEN], driver->token);
		memcpy(driver->out + done, driver->memory + at, DATA);
	}
	return true;
}

uint32_t driver_command(struct driver *driver, uint16_t opcode, uint16_t op_mod, uint32_t in_bytes,
			uint32_t out_bytes)
{
	uint8_t *entry = driver->memory + DRIVER_QUEUE;
	uint32_t delivery;

	driver_ring(driver, 0, opcode, op_mod, in_bytes, out_bytes);
	assert_true(driver_take(driver, 0, out_bytes));
	delivery = SN_GET(cmd_queue_entry, entry, status);
	memset(driver->in, 0, sizeof(driver->in));
	return delivery ? 0x100 + delivery : driver->out[0];
}

uint32_t driver_eq(struct driver *driver, uint64_t at, uint32_t log, uint64_t types)
{
	uint8_t *context = SN_AT(create_eq_in, driver->in, eq_context_entry);
	uint32_t pages = ((64u << log) + 4095) / 4096;

	memset(driver->in, 0, sizeof(driver->in));
	SN_SET(eqc, context, log_eq_size, log);
	SN_SET(eqc, context, intr, 3);
	sn_store64(SN_AT(create_eq_in, driver->in, event_bitmask), types);
	for (uint32_t i = 0; i < pages; i++)
		sn_store64(SN_AT(create_eq_in, driver->in, pas) + 8 * i, at + 4096 * i);
	assert_int_equal(driver_command(driver, CREATE_EQ, 0,
					SN_FIELD_BYTE(create_eq_in, pas) + 8 * pages, 16),
			 0);
	return SN_GET(create_eq_out, driver->out, eq_number);
}

void driver_eq_doorbell(struct driver *driver, uint32_t eqn, uint32_t consumed, bool arm)
{
	write32(driver, UAR * 4096 + (arm ? EQ_ARM : EQ_CONSUME),
		eqn << 24 | (consumed & 0xffffff));
}
