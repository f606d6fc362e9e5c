/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RESP is loaded when the first address of Redis is used. */
#include <errno.h>
#include <pthread.h>

#include "kvclient/backend.h"
#include "kvclient/dl.h"
#include "kvclient/resp.h"

/* NULL but in a program that links kvclient_resp. Hidden, as no library of the program is meant. */
extern const struct kv_resp shift_redis_resp __attribute__((weak, visibility("hidden")));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct kv_resp *loaded;
static char why[160]; /* why nothing was loaded */

static void load(void)
{
	loaded = &shift_redis_resp;
	if (!loaded)
		loaded = kv_dl_own(KV_RESP_LIBRARY, "shift_redis_resp", why, sizeof(why));
}

const struct kv_resp *kv_resp(struct kv *kv)
{
	pthread_once(&once, load);
	if (!loaded) {
		kv_fail(kv, -ELIBACC, "cannot load %s, which redis:// addresses need: %s",
			KV_RESP_LIBRARY, why);
		return NULL;
	}
	if (loaded->version != KV_RESP_VERSION) {
		kv_fail(kv, -ELIBACC,
			"%s is of another version of SHIFT: start the program again after an "
			"upgrade",
			KV_RESP_LIBRARY);
		return NULL;
	}
	return loaded;
}
