/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The record that a connection writes into the KV, and the keys under which it is written and
 * looked for.
 */
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/conn/meet/intro.h"
#include "shiftlib/conn/meet/intro_kv.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"

/*
 * Finds the GID that the application connected from, as it gave an index. Most queue pairs use
 * the GID of the control QP, or that of the QP before; for others the NIC is asked, not in the
 * application's thread. False: the answer is on its way, and the introduction goes on with it.
 */
bool sh_intro_gid_known(struct sh_qp *qp)
{
	const struct sh_nic *nic = qp->ctx->nic;
	uint8_t index = qp->app.attr.ah_attr.grh.sgid_index;
	const uint8_t *gid = NULL;

	if (!qp->app.attr.ah_attr.is_global)
		return true;
	if (index == nic->address.gid_index) {
		gid = nic->address.gid;
		qp->gid.kind = nic->address.gid_kind;
		qp->gid.vlan = nic->address.vlan;
	} else if (nic->gid.valid && nic->gid.index == index) {
		gid = nic->gid.gid;
		qp->gid.kind = nic->gid.kind;
		qp->gid.vlan = nic->gid.vlan;
	}
	if (qp->intro.gid_unknown || (qp->gid.valid && (gid || qp->gid.kind)))
		return true;
	if (gid) {
		memcpy(qp->gid.raw, gid, sizeof(qp->gid.raw));
		qp->gid.valid = true;
		return true;
	}
	qp->intro.queued = sh_intro_ask_gid(qp, index);
	return false;
}

static uint64_t intro_subnet(const struct sh_nic *nic)
{
	uint64_t subnet = 0;
	int i;

	for (i = 0; i < 8; i++)
		subnet = subnet << 8 | nic->address.gid[i];
	return subnet;
}

static bool intro_by_lid(const struct sh_qp *qp)
{
	return qp->ctx->nic->address.link_layer != IBV_LINK_LAYER_ETHERNET;
}

/* Found out once: it may take a system call, and queue pairs are destroyed by the thousand. */
static int intro_prefix(const char **prefix)
{
	*prefix = sh_intros.prefix;
	if (**prefix)
		return 0;
	return kv_prefix(sh.config.job, sh_intros.prefix, sizeof(sh_intros.prefix));
}

int sh_intro_own_keys(const struct sh_qp *qp, char keys[2][KV_KEY_MAX + 1], int *n)
{
	const struct sh_nic *nic = qp->ctx->nic;
	const char *prefix;
	int ret = intro_prefix(&prefix);

	if (ret)
		return ret;
	if (qp->gid.valid)
		ret = kv_key_gid(keys[(*n)++], KV_KEY_MAX, prefix, qp->gid.raw, qp->qp->qp_num);
	if (!ret && intro_by_lid(qp))
		ret = kv_key_lid(keys[(*n)++], KV_KEY_MAX, prefix, intro_subnet(nic),
				 nic->address.lid, qp->qp->qp_num);
	return ret;
}

int sh_intro_keys(const struct sh_qp *qp, struct sh_intro_item *item)
{
	const struct sh_nic *nic = qp->ctx->nic;
	const struct ibv_ah_attr *ah = &qp->app.attr.ah_attr;
	const char *prefix;
	int ret;

	ret = sh_intro_own_keys(qp, item->own_keys, &item->n_own);
	if (!ret)
		ret = intro_prefix(&prefix);
	if (ret)
		return ret;
	if (ah->is_global)
		return kv_key_gid(item->peer_key, KV_KEY_MAX, prefix, ah->grh.dgid.raw,
				  qp->app.attr.dest_qp_num);
	return kv_key_lid(item->peer_key, KV_KEY_MAX, prefix, intro_subnet(nic), ah->dlid,
			  qp->app.attr.dest_qp_num);
}

static void intro_add_nic(struct kv_record *record, const struct sh_nic *nic)
{
	struct kv_addr *addr = &record->addr[record->n_addr++];

	addr->nic = nic->index;
	addr->link_layer = nic->address.link_layer;
	if (!nic->address.link_layer) /* not open yet, maybe never: told later, if it will be */
		addr->link_layer = KV_LINK_ETHERNET;
	addr->gid_index_hint = nic->address.gid_index;
	memcpy(addr->gid, nic->address.gid, sizeof(addr->gid));
	addr->lid = nic->address.lid;
	addr->ctrl_qpn = nic->address.qpn;
	addr->qkey = nic->address.qkey;
	addr->mtu = nic->address.mtu;
	addr->revision = nic->revision;
}

void sh_intro_record(const struct sh_qp *qp, struct kv_record *record)
{
	const struct sh_ctx *ctx = qp->ctx;
	uint32_t k;

	*record = (struct kv_record){
		.caps = SH_WIRE_CAP_INQUIRY | (sh.config.atomic_home ? SH_WIRE_CAP_HOME : 0),
		.instance = sh.instance,
		.conn_id = qp->conn_id,
		.nonce = qp->nonce,
		.qpn = qp->qp->qp_num,
		.remote_qpn = qp->app.attr.dest_qp_num,
		.default_nic = ctx->nic->index,
	};
	for (k = 0; k < ctx->n_paths; k++) {
		if (k)
			record->backup[record->n_backup++] = ctx->path[k]->index;
		intro_add_nic(record, ctx->path[k]);
	}
}
