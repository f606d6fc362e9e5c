/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of engines. */
#include "providers/engine.h"

#include <string.h>

#include "providers/ledger/ledger.h"
#include "providers/mlx5/mlx5.h"

static const struct shift_provider *const engines[SP_ENGINES] = {
	&shift_provider_mlx5,
	&shift_provider_ledger,
};

const struct shift_provider *sp_engine_at(uint32_t number)
{
	return engines[number];
}

uint32_t sp_engine_number(const struct shift_provider *engine)
{
	uint32_t i = 0;

	while (engines[i] != engine)
		i++;
	return i;
}

/* ---- which one ------------------------------------------------------------------------------- */

static bool is_auto(const char *choice)
{
	return !choice || !strcmp(choice, "auto");
}

static bool is_chosen(const char *choice, const struct shift_provider *engine)
{
	return is_auto(choice) || !strcmp(choice, engine->name);
}

/*
 * True if the engine may take the NIC. A driver is known with plain verbs only where it was tried;
 * a user who names the engine accepts what was learned by reading.
 */
static bool serves(const char *choice, const struct shift_provider *engine,
		   const struct sp_candidate *nic)
{
	if (is_auto(choice) && (engine->traits & SP_ANY_DEVICE) && !nic->tried)
		return false;
	return engine->serves(nic->device);
}

bool sp_engine_named(const char *choice)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (is_chosen(choice, engines[i]))
			return true;
	return false;
}

bool sp_engine_serves(const char *choice, const struct sp_candidate *nic)
{
	return sp_engine_choose(choice, nic, 1);
}

static bool serves_all(const char *choice, const struct shift_provider *engine,
		       const struct sp_candidate *nics, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!serves(choice, engine, &nics[i]))
			return false;
	return true;
}

const struct shift_provider *sp_engine_choose(const char *choice, const struct sp_candidate *nics,
					      uint32_t n)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (is_chosen(choice, engines[i]) && serves_all(choice, engines[i], nics, n))
			return engines[i];
	return NULL;
}

bool sp_probe(const char *choice, struct ibv_context *ctx, const char **why_not)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (is_chosen(choice, engines[i]) && engines[i]->probe(ctx, why_not))
			return true;
	return false;
}

void sp_keys_changed(void)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		engines[i]->keys_changed();
}

/* ---- what a driver does by itself ------------------------------------------------------------ */

/*
 * Returns the first engine that serves the device: any such engine would do, but the first knows
 * more.
 */
static const struct shift_provider *best_engine(struct ibv_device *device)
{
	for (uint32_t i = 0; i < SP_ENGINES; i++)
		if (engines[i]->serves(device))
			return engines[i];
	return engines[SP_ENGINES - 1];
}

void sp_key_command(struct ibv_context *ctx, const struct ib_uverbs_ioctl_hdr *command,
		    struct sp_key_command *out)
{
	best_engine(ctx->device)->key_command(command, out);
}

int sp_dmabuf_flags(struct ibv_context *ctx, const void *driver, uint32_t *flags)
{
	return best_engine(ctx->device)->dmabuf_flags(driver, flags);
}

struct ibv_mr *sp_dmabuf_reg(struct ibv_pd *pd, const struct sp_dmabuf *buf)
{
	return best_engine(pd->context->device)->dmabuf_reg(pd, buf);
}

uint32_t sp_pd_number(struct ibv_pd *pd)
{
	return best_engine(pd->context->device)->pd_number(pd);
}
