/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device files of the process, as far as SHIFT knows them. shiftctl compares them with those
 * that the kernel shows: a file that SHIFT does not know is used past it.
 */
#include <string.h>
#include "shiftlib/admin/admin.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/object/object.h"
#include "shiftlib/replica/context.h"

#define OPEN_NODES 64 /* device files that are told of */

struct open_nodes {
	uint32_t n;
	struct {
		const char *name; /* "uverbs0", of a device that is open */
		uint32_t contexts;
	} node[OPEN_NODES];
};

static void open_add(struct open_nodes *nodes, const struct ibv_context *ctx)
{
	const char *name = ctx->device->dev_name;
	uint32_t i;

	for (i = 0; i < nodes->n && strcmp(nodes->node[i].name, name); i++)
		;
	if (i == OPEN_NODES)
		return;
	if (i == nodes->n)
		nodes->node[nodes->n++].name = name;
	nodes->node[i].contexts++;
}

/* Adds SHIFT's own contexts, those of dead NICs included. */
static void open_add_nic(struct open_nodes *nodes, const struct sh_nic *nic)
{
	const struct sh_past_nic *past;

	if (nic->ctx)
		open_add(nodes, nic->ctx);
	for (past = nic->past; past; past = past->next)
		open_add(nodes, past->ctx);
}

void admin_open(struct sh_json *json)
{
	struct open_nodes nodes = { 0 };
	struct sh_ctx *ctx;
	uint32_t i;

	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link)
		open_add(&nodes, ctx->ctx);
	for (i = 0; i < sh_nics.n; i++)
		open_add_nic(&nodes, &sh_nics.nic[i]);
	sh_json_print(json, ", \"open\": {");
	for (i = 0; i < nodes.n; i++) {
		sh_json_print(json, "%s", i ? ", " : "");
		sh_json_string(json, nodes.node[i].name);
		sh_json_print(json, ": %u", nodes.node[i].contexts);
	}
	sh_json_print(json, "}");
}

void admin_foreign(struct sh_json *json)
{
	const char *comma = "";
	struct sh_ctx *ctx;

	sh_json_print(json, ", \"foreign\": [");
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link) {
		if (ctx->dev)
			continue;
		sh_json_print(json, "%s{\"name\": ", comma);
		sh_json_string(json, sh.real->get_device_name(ctx->ctx->device));
		sh_json_print(json, ", \"why\": ");
		sh_json_string(json, ctx->why);
		sh_json_print(json, "}");
		comma = ", ";
	}
	sh_json_print(json, "]");
}

void admin_direct(struct sh_json *json)
{
	const char *comma = "";
	struct sh_ctx *ctx;

	sh_json_print(json, ", \"direct\": [");
	list_for_each (&sh_objects.ctxs, ctx, struct sh_ctx, link) {
		if (!ctx->n_direct)
			continue;
		sh_json_print(json, "%s{\"name\": ", comma);
		sh_json_string(json, sh.real->get_device_name(ctx->ctx->device));
		sh_json_print(json, ", \"qps\": %u}", ctx->n_direct);
		comma = ", ";
	}
	sh_json_print(json, "]");
}
