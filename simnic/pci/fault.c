/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The words of fault.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "simnic/pci/bridge_space.h"
#include "simnic/pci/command.h"
#include "simnic/pci/fault.h"
#include "simnic/pci/pci.h"

enum number { NONE, OPTIONAL, WANTED };
/* States of the interface that the driver reads; "disabled". */
enum { DISABLED = 1, ANY_SYNDROME = 1 };

static void port_down(struct sn_pci *pci, uint32_t number)
{
	sn_eq_port(pci, false);
}

static void port_up(struct sn_pci *pci, uint32_t number)
{
	sn_eq_port(pci, true);
}

static void syndrome(struct sn_pci *pci, uint32_t number)
{
	uint8_t *health = SN_AT(initial_seg, pci->iseg, health_buffer);

	SN_SET(health_buffer, health, synd, number);
}

static void fatal(struct sn_pci *pci, uint32_t number)
{
	uint8_t *health = SN_AT(initial_seg, pci->iseg, health_buffer);

	SN_SET(health_buffer, health, rfr, 1);
	syndrome(pci, number ? number : ANY_SYNDROME);
}

static void disabled(struct sn_pci *pci, uint32_t number)
{
	SN_SET(initial_seg, pci->iseg, nic_interface, DISABLED);
}

static void hang(struct sn_pci *pci, uint32_t number)
{
	pci->broken.hang = true;
	sn_pci_update_data(pci);
}

static void run_what_waits(struct sn_pci *pci)
{
	pci->host.work_in(pci->host.self, 0);
}

static void resume(struct sn_pci *pci, uint32_t number)
{
	pci->broken.hang = false;
	sn_pci_update_data(pci);
	run_what_waits(pci);
}

static void slow(struct sn_pci *pci, uint32_t number)
{
	pci->broken.command_ms = number;
}

static void command_timeout(struct sn_pci *pci, uint32_t number)
{
	pci->command_timeout_ms = number;
	sn_iseg_set_timeouts(pci);
}

static void reset_timeout(struct sn_pci *pci, uint32_t number)
{
	pci->reset_timeout_ms = number;
}

static void lose_events(struct sn_pci *pci, uint32_t number)
{
	pci->broken.lose_events = true;
}

static void lose_interrupts(struct sn_pci *pci, uint32_t number)
{
	pci->broken.lose_interrupts = true;
}

static void heal(struct sn_pci *pci, uint32_t number)
{
	bool dead = pci->broken.dead;

	memset(&pci->broken, 0, sizeof(pci->broken));
	pci->broken.dead = dead;
	sn_pci_update_data(pci);
	run_what_waits(pci);
}

static void dead(struct sn_pci *pci, uint32_t number)
{
	pci->broken.dead = true;
	sn_pci_update_data(pci);
}

static void alive(struct sn_pci *pci, uint32_t number)
{
	sn_pci_reset(pci);
}

static void go_astray(struct sn_pci *pci, uint32_t number, bool write)
{
	if (!pci->bridge || sn_bridge_go_astray(pci->bridge, number, write))
		sn_pci_say(pci, "no DMA address to go to: %x", number);
}

static void stray_read(struct sn_pci *pci, uint32_t number)
{
	go_astray(pci, number, false);
}

static void stray_write(struct sn_pci *pci, uint32_t number)
{
	go_astray(pci, number, true);
}

/* The number has the type in its upper, the subtype in its lower half. */
static void event(struct sn_pci *pci, uint32_t number)
{
	uint8_t data[SN_EVENT_BYTES] = { 0 };

	sn_eq_tell_type(pci, number >> 16, number, data);
}

static const struct word {
	const char *name;
	enum number number;
	void (*make)(struct sn_pci *pci, uint32_t number);
} words[] = {
	{ "port-down", NONE, port_down },
	{ "port-up", NONE, port_up },
	{ "syndrome", WANTED, syndrome },
	{ "fatal", OPTIONAL, fatal },
	{ "disabled", NONE, disabled },
	{ "hang", NONE, hang },
	{ "resume", NONE, resume },
	{ "slow", WANTED, slow },
	{ "command-timeout", WANTED, command_timeout },
	{ "reset-timeout", WANTED, reset_timeout },
	{ "lose-events", NONE, lose_events },
	{ "lose-interrupts", NONE, lose_interrupts },
	{ "heal", NONE, heal },
	{ "dead", NONE, dead },
	{ "alive", NONE, alive },
	{ "stray-read", WANTED, stray_read },
	{ "stray-write", WANTED, stray_write },
	{ "event", WANTED, event },
};

static const struct word *find(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].name) == length && !memcmp(words[i].name, name, length))
			return &words[i];
	return NULL;
}

/* "N" or "N.M", which is N in the upper half. False: something else stands there. */
static bool read_number(const char *text, uint32_t *number)
{
	char *end;

	*number = strtoul(text, &end, 0);
	if (end != text && *end == '.') {
		text = end + 1;
		*number = *number << 16 | (strtoul(text, &end, 0) & 0xffff);
	}
	return end != text && !*end;
}

static void normalise(const struct word *word, const char *text, uint32_t *number)
{
	if (word->make == event && !strchr(text, '.'))
		*number <<= 16;
}

int sn_pci_fault(struct sn_pci *pci, const char *text)
{
	size_t length = strcspn(text, "=");
	const struct word *word = find(text, length);
	uint32_t number = 0;
	bool given = text[length] == '=';

	if (!word || (given && word->number == NONE) || (!given && word->number == WANTED))
		return -EINVAL;
	if (given && !read_number(text + length + 1, &number))
		return -EINVAL;
	normalise(word, text, &number);
	sn_pci_say(pci, "fault %s", text);
	word->make(pci, number);
	return 0;
}
