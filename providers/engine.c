/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of engines. */
#include "providers/engine.h"

#include <errno.h>

#include "providers/mlx5/mlx5.h"

static const struct shift_provider *const engines[] = {
	&shift_provider_mlx5,
};

#define N_ENGINES (sizeof(engines) / sizeof(engines[0]))

const struct shift_provider *sp_engine_for(struct ibv_device *device)
{
	for (size_t i = 0; i < N_ENGINES; i++)
		if (engines[i]->serves(device))
			return engines[i];
	return NULL;
}

/* If none can, the last one's reason. */
bool sp_probe(struct ibv_context *ctx, const char **why_not)
{
	for (size_t i = 0; i < N_ENGINES; i++)
		if (engines[i]->probe(ctx, why_not))
			return true;
	return false;
}

int sp_dev_init(struct ibv_context *ctx, bool install, const struct sp_callbacks *cb,
		struct sp_dev **out)
{
	const struct shift_provider *engine = sp_engine_for(ctx->device);

	return engine ? engine->dev_init(ctx, install, cb, out) : -EOPNOTSUPP;
}

void sp_keys_changed(void)
{
	for (size_t i = 0; i < N_ENGINES; i++)
		engines[i]->keys_changed();
}
