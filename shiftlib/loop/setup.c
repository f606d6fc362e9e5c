/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <string.h>
#include "shiftlib/loop/setup.h"
#include "shiftlib/news.h"

#define SETUP_PAUSE_MIN_NS (5 * SH_NS_PER_MS)
#define SETUP_PAUSE_MAX_NS (100 * SH_NS_PER_MS)
#define SETUP_PART	   2 /* part of the set-up so far: a peer may take longer to answer */
#define SETUP_MAX_NS	   (10 * SH_NS_PER_S) /* protected in the end without a pause */

static struct {
	uint64_t since; /* 0: it is not on */
	uint64_t last;	/* command */
	uint64_t look_at;
	bool ends; /* the pause is not waited for */
} setup;

/* A program that sets up thousands waits for others between its steps, each time longer. */
static uint64_t setup_pause_ns(void)
{
	uint64_t part = (setup.last - setup.since) / SETUP_PART;

	if (part < SETUP_PAUSE_MIN_NS)
		return SETUP_PAUSE_MIN_NS;
	return sh_min_ns(part, SETUP_PAUSE_MAX_NS);
}

static uint64_t setup_over_at(void)
{
	if (setup.ends)
		return setup.last;
	return sh_min_ns(setup.last + setup_pause_ns(), setup.since + SETUP_MAX_NS);
}

bool sh_setup_on(void)
{
	return setup.since;
}

/* The thread is woken once: when it wakes, it sees that the set-up went on. */
void sh_setup_command(void)
{
	setup.last = sh_now_ns();
	if (setup.since)
		return;
	setup.since = setup.last;
	setup.look_at = setup.last + SETUP_PAUSE_MIN_NS;
	sh_wake_at(setup_over_at());
}

void sh_setup_also(void)
{
	if (setup.since)
		setup.last = sh_now_ns();
}

void sh_setup_end(void)
{
	if (!setup.since)
		return;
	setup.ends = true;
	sh_wake_at(sh_now_ns());
}

static void setup_run(uint64_t now) SH_LOCKED
{
	if (!setup.since)
		return;
	if (now >= setup_over_at()) {
		setup.since = 0;
		setup.ends = false;
		sh_news_setup_over();
	} else if (now >= setup.look_at) {
		setup.look_at = now + SETUP_PAUSE_MIN_NS;
		sh_news_setup_goes_on();
	}
}

static uint64_t setup_next_timer(void)
{
	return setup.since ? sh_min_ns(setup_over_at(), setup.look_at) : 0;
}

static void setup_reset(void)
{
	memset(&setup, 0, sizeof(setup));
}

const struct sh_module sh_setup_module = {
	.name = "set-up",
	.reset = setup_reset,
	.run = setup_run,
	.next_timer = setup_next_timer,
};
