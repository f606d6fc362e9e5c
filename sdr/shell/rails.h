/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rails of a queue pair, and the NICs below that fail and join again. Included by internal.h. */
#ifndef SDR_SHELL_RAILS_H
#define SDR_SHELL_RAILS_H

/*
 * rails.c: several rails share a way, and a NIC has several ways where the other end has more NICs
 */
uint64_t sdr_rails_lifetime(const struct sdr_qp *qp);
uint32_t sdr_rail_way(const struct sdr_qp *qp, uint32_t rail);
uint32_t sdr_way_device(const struct sdr_qp *qp, uint32_t way); /* in the context */
struct sdr_nic *sdr_way_nic(const struct sdr_qp *qp, uint32_t way);
uint32_t sdr_rails_usable(const struct sdr_qp *qp); /* bits; 0: none is left */
/* share of the rate that the usable rails have */
double sdr_rails_share(const struct sdr_qp *qp);
bool sdr_rail_dead(const struct sdr_qp *qp, uint32_t rail);
bool sdr_rail_rests(const struct sdr_qp *qp, uint32_t rail);
/* Must not be called from within a poll of the way. */
void sdr_rails_fail(struct sdr_qp *qp, uint32_t way, const char *fault);
void sdr_rails_look(struct sdr_qp *qp);
void sdr_rails_head(const struct sdr_qp *qp, struct sdr_ctrl_head *h);
void sdr_rails_hear(struct sdr_qp *qp, const struct sdr_ctrl_head *h);
void sdr_rails_say(struct sdr_qp *qp);
/* NULL: no room, as good as lost. */
struct sdr_control *sdr_rails_control(struct sdr_qp *qp, void **room);
int sdr_rails_poll(struct sdr_qp *qp);
void sdr_rails_begin(struct sdr_qp *qp);
void sdr_rails_mask(struct sdr_qp *qp);
void sdr_rails_answer(struct sdr_qp *qp);
/* rejoin.c: a NIC that is left, and used again */
void sdr_way_tend(struct sdr_qp *qp, uint32_t way); /* does what is due for the way */
/* closes all ways after an error: called each round until all is shut */
void sdr_rails_shut(struct sdr_qp *qp);
bool sdr_nic_holds(const struct sdr_qp *qp, uint32_t nic); /* something of the device */
void sdr_rejoin_hear(struct sdr_qp *qp, const struct sdr_ctrl_join *said);
void sdr_rails_join(struct sdr_qp *qp); /* before queue pairs are closed: waits for the workers */
int sdr_rail_connect(struct sdr_qp *qp, uint32_t rail, struct sdr_peer *peer, const uint32_t *qpn,
		     uint32_t control_qpn);

#endif
