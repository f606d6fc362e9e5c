/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Each event against whoever lives on the context, and what becomes of those that were held back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shiftlib/facade/held.h"
#include "tests/lib/random.h"

static struct sh_held held;
static struct sh_held_view view;

static int fresh(void **state)
{
	memset(&held, 0, sizeof(held));
	memset(&view, 0, sizeof(view));
	return 0;
}

/* Users of port 1, which are all that the device has. */
static void lives(bool masked, bool bystander)
{
	view.device.masked = view.port[0].masked = masked;
	view.device.bystander = view.port[0].bystander = bystander;
}

static bool keeps_on(enum ibv_event_type type, int port)
{
	struct ibv_async_event event = { .element.port_num = port, .event_type = type };

	return sh_held_keep(&held, &event, &view);
}

static bool keeps(enum ibv_event_type type)
{
	return keeps_on(type, 1);
}

/* The type of the next event that is due; -1: there is none. */
static int due(void)
{
	struct ibv_async_event event;

	return sh_held_release(&held, &view, &event) ? (int)event.event_type : -1;
}

static const enum ibv_event_type tables[] = {
	IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE,	   IBV_EVENT_PKEY_CHANGE,
	IBV_EVENT_SM_CHANGE,  IBV_EVENT_CLIENT_REREGISTER,
};

#define TABLES (int)(sizeof(tables) / sizeof(tables[0]))

static bool is_table(enum ibv_event_type type)
{
	for (int i = 0; i < TABLES; i++)
		if (tables[i] == type)
			return true;
	return false;
}

/* The whole table: event, who lives there, is a fault known. The rule is told another way round than the code has it. */
static void each_row(void **state)
{
	for (int type = 0; type <= IBV_EVENT_WQ_FATAL; type++)
		for (unsigned bits = 0; bits < 8; bits++) {
			bool masked = bits & 1, bystander = bits & 2, fault = bits & 4;
			bool hidden = masked && !bystander, wanted = false;

			fresh(NULL);
			lives(masked, bystander);
			view.port[0].fault = fault;
			if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_PORT_ERR)
				wanted = hidden;
			else if (is_table((enum ibv_event_type)type))
				wanted = hidden && fault;
			assert_int_equal(keeps((enum ibv_event_type)type), wanted);
			assert_int_equal(sh_held_owes(&held), wanted);
			if (wanted)
				assert_int_equal(due(), -1);
		}
}

static void a_death_waits_for_the_last(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	assert_int_equal(due(), -1);
	lives(false, false);
	assert_int_equal(due(), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(due(), -1);
	assert_false(sh_held_owes(&held));
}

static void a_death_waits_for_a_bystander(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	lives(true, true);
	assert_int_equal(due(), IBV_EVENT_DEVICE_FATAL);
	lives(true, false); /* what was told once is no secret */
	assert_false(keeps(IBV_EVENT_DEVICE_FATAL));
}

/* An internal error, and then the removal: on stock, both are told. */
static void a_death_is_told_as_often(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	lives(false, false);
	assert_int_equal(due(), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(due(), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(due(), -1);
}

/* The count says what due() will. */
static void a_count_of_each_kind(void **state)
{
	uint32_t owed[SH_OWED_KINDS] = { 0 };

	lives(true, false);
	view.port[1].masked = true;
	view.port[0].fault = true;
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	assert_true(keeps_on(IBV_EVENT_PORT_ERR, 2));
	assert_true(keeps(IBV_EVENT_CLIENT_REREGISTER));
	assert_true(keeps(IBV_EVENT_CLIENT_REREGISTER)); /* told once */
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	sh_held_count(&held, owed);
	sh_held_count(&held, owed); /* of two contexts */
	for (uint32_t kind = 0; kind < SH_OWED_KINDS; kind++) {
		const char *name = sh_owed_name(kind);

		assert_int_equal(owed[kind], !strcmp(name, "device_fatal")	  ? 2
					     : !strcmp(name, "port_err")	  ? 4
					     : !strcmp(name, "client_reregister") ? 2
										  : 0);
	}
}

static void a_death_that_was_met(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	held.met = true;
	assert_int_equal(due(), IBV_EVENT_DEVICE_FATAL);
	fresh(NULL); /* and the other way round */
	lives(true, false);
	held.met = true;
	assert_false(keeps(IBV_EVENT_DEVICE_FATAL));
}

/* Nobody wants to hear of a port of a device that is dead. */
static void a_death_outdoes_its_ports(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	assert_true(keeps(IBV_EVENT_GID_CHANGE));
	assert_true(keeps(IBV_EVENT_DEVICE_FATAL));
	lives(false, false);
	assert_int_equal(due(), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(due(), -1);
}

static void a_port_in_pairs(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	assert_true(sh_held_hides(&held, &view, 1));
	assert_true(keeps(IBV_EVENT_PORT_ACTIVE)); /* neither, and nothing is owed */
	assert_false(sh_held_owes(&held));
	assert_false(sh_held_hides(&held, &view, 1));
	lives(true, true);
	assert_false(keeps(IBV_EVENT_PORT_ERR));
	lives(true, false); /* the bystander has gone: the program knows all the same */
	assert_false(sh_held_hides(&held, &view, 1));
	assert_false(keeps(IBV_EVENT_PORT_ACTIVE));
	assert_true(keeps(IBV_EVENT_PORT_ERR)); /* and the next fault is another one */
}

/* Soft-RoCE tells of a port again with each change of its netdev. */
static void a_port_that_says_it_twice(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	assert_true(keeps(IBV_EVENT_PORT_ACTIVE));
	assert_true(keeps(
		IBV_EVENT_PORT_ACTIVE)); /* the program has not heard that the port was down */
	assert_true(keeps(IBV_EVENT_PORT_ACTIVE));
	lives(true, true);
	assert_int_equal(due(), -1);
	for (int twice = 0; twice < 2; twice++)
		assert_false(keeps(IBV_EVENT_PORT_ERR));
	for (int twice = 0; twice < 2; twice++)
		assert_false(keeps(IBV_EVENT_PORT_ACTIVE));
}

/* A port that comes up for the first time. */
static void a_port_that_was_never_up(void **state)
{
	lives(true, false);
	assert_false(keeps(IBV_EVENT_PORT_ACTIVE));
}

static void a_port_that_is_told_late(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	lives(true, true);
	assert_int_equal(due(), IBV_EVENT_PORT_ERR);
	assert_int_equal(due(), -1);
	assert_false(keeps(IBV_EVENT_PORT_ACTIVE));
}

/* A bystander that is on the other port. */
static void each_port_by_itself(void **state)
{
	lives(true, false);
	view.device.bystander = view.port[1].bystander = true;
	assert_true(keeps_on(IBV_EVENT_PORT_ERR, 1));
	assert_false(keeps_on(IBV_EVENT_PORT_ERR, 2));
	assert_false(keeps_on(IBV_EVENT_PORT_ERR, 3));
	assert_false(keeps_on(IBV_EVENT_PORT_ERR, 0));
	assert_false(keeps_on(IBV_EVENT_DEVICE_FATAL, 1));
	assert_false(sh_held_hides(&held, &view, 0));
	assert_false(sh_held_hides(&held, &view, 3));
}

static void tables_wait_for_their_port(void **state)
{
	lives(true, false);
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	assert_true(keeps(IBV_EVENT_CLIENT_REREGISTER));
	assert_true(keeps(IBV_EVENT_GID_CHANGE));
	assert_true(keeps(IBV_EVENT_GID_CHANGE));
	assert_int_equal(due(), -1);
	assert_true(keeps(IBV_EVENT_PORT_ACTIVE));
	assert_int_equal(due(), IBV_EVENT_GID_CHANGE);
	assert_int_equal(due(), IBV_EVENT_CLIENT_REREGISTER);
	assert_int_equal(due(), -1);
}

/* SHIFT sees that the link went before the port says it, or the port never says it. */
static void tables_wait_for_a_link(void **state)
{
	lives(true, false);
	view.port[0].fault = true;
	assert_true(keeps(IBV_EVENT_LID_CHANGE));
	assert_int_equal(due(), -1);
	view.port[0].fault = false;
	assert_int_equal(due(), IBV_EVENT_LID_CHANGE);
}

static void tables_of_a_port_that_was_told(void **state)
{
	lives(true, true);
	view.port[0].fault = true;
	assert_false(keeps(IBV_EVENT_PORT_ERR));
	lives(true, false);
	assert_false(keeps(IBV_EVENT_GID_CHANGE));
}

/* A late bystander hears the whole story, in order. */
static void all_in_order(void **state)
{
	lives(true, false);
	view.port[0].fault = true;
	assert_true(keeps(IBV_EVENT_GID_CHANGE));
	assert_true(keeps(IBV_EVENT_PORT_ERR));
	lives(true, true);
	assert_int_equal(due(), IBV_EVENT_PORT_ERR);
	assert_int_equal(due(), IBV_EVENT_GID_CHANGE);
	assert_int_equal(due(), -1);
}

/* ---- at random ------------------------------------------------------------------------------ */

static uint64_t dice;

/* What the program has heard: PORT_ACTIVE behind PORT_ERR only. */
struct heard {
	bool down, dead;
	bool fault; /* the last fault of the port was told */
	uint32_t deaths, gids;
};

static void hear(struct heard *heard, int type)
{
	if (type == IBV_EVENT_DEVICE_FATAL) {
		heard->dead = true;
		heard->deaths++;
	} else if (type == IBV_EVENT_PORT_ERR) {
		heard->down = heard->fault = true;
	} else if (type == IBV_EVENT_PORT_ACTIVE) {
		assert_true(heard->fault);
		heard->down = false;
	} else if (type == IBV_EVENT_GID_CHANGE) {
		heard->gids++;
	}
}

static void happens(struct heard *heard, enum ibv_event_type type)
{
	if (!keeps(type))
		hear(heard, type);
	else if (type == IBV_EVENT_PORT_ACTIVE)
		heard->fault = false;
}

static void all_due(struct heard *heard)
{
	int type;

	while ((type = due()) >= 0)
		hear(heard, type);
}

/* A port that goes up and down, a table that moves, queue pairs that come and go; at last the device dies. */
static void story(void)
{
	struct heard heard = { 0 };
	bool down = false;
	uint32_t moved = 0;

	fresh(NULL);
	for (int n = (int)(random_next(&dice) % 60); n; n--) {
		switch (random_next(&dice) % 4) {
		case 0: lives(random_next(&dice) % 2, !(random_next(&dice) % 4)); break;
		case 1:
			down = !down;
			view.port[0].fault = down && random_next(&dice) % 2;
			for (int often = random_next(&dice) % 3 ? 1 : 2; often; often--)
				happens(&heard, down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
			break;
		case 2:
			moved = heard.gids + 1;
			happens(&heard, IBV_EVENT_GID_CHANGE);
			break;
		default: view.port[0].fault = down; break;
		}
		all_due(&heard);
		/* who needs to hear of it has heard of it, and nobody was told of what is over */
		if (view.port[0].bystander || !view.port[0].masked)
			assert_int_equal(heard.down, down);
		assert_false(heard.down && !down);
		if (!down && !view.port[0].fault)
			assert_true(heard.gids >= moved);
	}
	happens(&heard, IBV_EVENT_DEVICE_FATAL);
	lives(false, false);
	all_due(&heard);
	assert_int_equal(heard.deaths, 1);
	assert_false(sh_held_owes(&held));
}

static void at_random(void **state)
{
	dice = random_seed("held_test");
	for (int i = 0; i < 20000; i++)
		story();
}

#define T(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_row),
		T(a_death_waits_for_the_last),
		T(a_death_waits_for_a_bystander),
		T(a_death_is_told_as_often),
		T(a_count_of_each_kind),
		T(a_death_that_was_met),
		T(a_death_outdoes_its_ports),
		T(a_port_in_pairs),
		T(a_port_that_says_it_twice),
		T(a_port_that_was_never_up),
		T(a_port_that_is_told_late),
		T(each_port_by_itself),
		T(tables_wait_for_their_port),
		T(tables_wait_for_a_link),
		T(tables_of_a_port_that_was_told),
		T(all_in_order),
		T(at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
