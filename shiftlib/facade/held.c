/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include <stddef.h>
#include "shiftlib/facade/held.h"

/* Changes of tables, in the order in which they are told. */
static const enum ibv_event_type held_tables[] = {
	IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE,	   IBV_EVENT_PKEY_CHANGE,
	IBV_EVENT_SM_CHANGE,  IBV_EVENT_CLIENT_REREGISTER,
};

#define HELD_TABLES (sizeof(held_tables) / sizeof(held_tables[0]))

static uint8_t held_table_bit(enum ibv_event_type type)
{
	uint32_t i;

	for (i = 0; i < HELD_TABLES; i++)
		if (held_tables[i] == type)
			return (uint8_t)(1u << i);
	return 0;
}

/* Why somebody must hear of a fault now; NULL: all that it concerns outlive it. */
static const char *held_needs(const struct sh_held_who *who)
{
	if (who->bystander)
		return "a queue pair that is not protected needs it";
	return who->masked ? NULL : "no masked connection is left";
}

static const char *held_death_due(const struct sh_held *held, const struct sh_held_view *view)
{
	if (held->death_told)
		return "another one was told";
	if (held->met)
		return "the program has met the dead device";
	return held_needs(&view->device);
}

/* Tells the death of the device. The debts of the ports say nothing any more. */
static void held_tell_death(struct sh_held *held)
{
	uint32_t i;

	held->death_told = true;
	for (i = 0; i < SH_HELD_PORTS; i++) {
		held->port[i].err = false;
		held->port[i].tables = 0;
	}
}

static bool held_keep_death(struct sh_held *held, const struct sh_held_view *view)
{
	if (held_death_due(held, view)) {
		held_tell_death(held);
		return false;
	}
	held->deaths += held->deaths < UINT8_MAX;
	return true;
}

static void held_tell_err(struct sh_held *held, uint32_t i)
{
	held->port[i].err = held->port[i].hushed = false;
	held->port[i].told = true;
}

/* A device may say twice that a port is up: soft-RoCE does so with each change of its netdev. */
static bool held_keep_active(struct sh_held *held, uint32_t i)
{
	held->port[i].hushed |= held->port[i].err;
	held->port[i].err = held->port[i].told = false;
	return held->port[i].hushed;
}

static bool held_keep_err(struct sh_held *held, uint32_t i, const struct sh_held_who *who)
{
	assert(!held->port[i].err || !held->port[i].told);
	if (held->port[i].told || held_needs(who)) {
		held_tell_err(held, i);
		return false;
	}
	held->port[i].err = true;
	return true;
}

/* Why the changes of tables are due; NULL: they are part of a fault of which nobody hears. */
static const char *held_tables_due(const struct sh_held *held, uint32_t i,
				   const struct sh_held_who *who)
{
	if (held->port[i].err)
		return NULL;
	if (held->port[i].told)
		return "the program knows that the port is down";
	return who->fault ? held_needs(who) : "the port is well";
}

static bool held_keep_table(struct sh_held *held, uint32_t i, uint8_t bit,
			    const struct sh_held_who *who)
{
	if (held_tables_due(held, i, who))
		return false;
	held->port[i].tables |= bit;
	return true;
}

bool sh_held_keep(struct sh_held *held, const struct ibv_async_event *event,
		  const struct sh_held_view *view)
{
	uint32_t i = (uint32_t)event->element.port_num - 1;
	uint8_t bit = held_table_bit(event->event_type);

	if (event->event_type == IBV_EVENT_DEVICE_FATAL)
		return held_keep_death(held, view);
	if (event->event_type != IBV_EVENT_PORT_ERR && event->event_type != IBV_EVENT_PORT_ACTIVE &&
	    !bit)
		return false;
	if (i >= SH_HELD_PORTS)
		return false;
	if (bit)
		return held_keep_table(held, i, bit, &view->port[i]);
	if (event->event_type == IBV_EVENT_PORT_ACTIVE)
		return held_keep_active(held, i);
	return held_keep_err(held, i, &view->port[i]);
}

static const char *held_release_death(struct sh_held *held, const struct sh_held_view *view,
				      struct ibv_async_event *event)
{
	const char *why = held->deaths ? held_death_due(held, view) : NULL;

	if (!why)
		return NULL;
	held->deaths--;
	held_tell_death(held);
	event->event_type = IBV_EVENT_DEVICE_FATAL;
	event->element.port_num = 1;
	return why;
}

static const char *held_release_port(struct sh_held *held, uint32_t i,
				     const struct sh_held_who *who, struct ibv_async_event *event)
{
	const char *why = held->port[i].err ? held_needs(who) : NULL;
	uint32_t table;

	event->element.port_num = (int)i + 1;
	if (why) {
		held_tell_err(held, i);
		event->event_type = IBV_EVENT_PORT_ERR;
		return why;
	}
	why = held->port[i].tables ? held_tables_due(held, i, who) : NULL;
	if (!why)
		return NULL;
	table = (uint32_t)__builtin_ctz(held->port[i].tables);
	held->port[i].tables &= (uint8_t) ~(1u << table);
	event->event_type = held_tables[table];
	return why;
}

const char *sh_held_release(struct sh_held *held, const struct sh_held_view *view,
			    struct ibv_async_event *event)
{
	const char *why = held_release_death(held, view, event);
	uint32_t i;

	for (i = 0; i < SH_HELD_PORTS && !why; i++)
		why = held_release_port(held, i, &view->port[i], event);
	return why;
}

bool sh_held_owes(const struct sh_held *held)
{
	bool owes = held->deaths;
	uint32_t i;

	for (i = 0; i < SH_HELD_PORTS; i++)
		owes |= held->port[i].err || held->port[i].tables;
	return owes;
}

/* Names in the order of held_tables, behind the two others. */
static const char *const owed_names[SH_OWED_KINDS] = {
	"device_fatal", "port_err",  "lid_change",	  "gid_change",
	"pkey_change",	"sm_change", "client_reregister",
};
static_assert(SH_OWED_KINDS == 2 + HELD_TABLES, "a name for each kind");

const char *sh_owed_name(uint32_t kind)
{
	assert(kind < SH_OWED_KINDS);
	return owed_names[kind];
}

void sh_held_count(const struct sh_held *held, uint32_t owed[SH_OWED_KINDS])
{
	uint32_t port, table;

	owed[0] += held->deaths;
	for (port = 0; port < SH_HELD_PORTS; port++) {
		owed[1] += held->port[port].err;
		for (table = 0; table < HELD_TABLES; table++)
			owed[2 + table] += held->port[port].tables >> table & 1;
	}
}

bool sh_held_hides(const struct sh_held *held, const struct sh_held_view *view, uint8_t port)
{
	uint32_t i = port - 1u;

	if (i >= SH_HELD_PORTS || held->death_told || held->port[i].told ||
	    held_needs(&view->port[i]))
		return false;
	return held->deaths || held->port[i].err || view->port[i].fault;
}
