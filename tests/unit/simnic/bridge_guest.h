/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A guest for tests of the bridge: guest memory is a memfd, pages of rings and regions lie in it
 * scattered, and requests are written as the driver writes them. A failed call ends the program.
 * One thread. A guest behind an IOMMU has other addresses than those of its memory (DMA addresses).
 */
#ifndef TESTS_BRIDGE_GUEST_H
#define TESTS_BRIDGE_GUEST_H

#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "simnic/pci/bridge_port.h"

enum {
	GUEST_PAGE = 4096,
	GUEST_PAGES = 4096,
	GUEST_LOG_CQ = 6,
	GUEST_LOG_SQ = 6,
	GUEST_LOG_RQ = 6,
	GUEST_STRIDE = 64,
	GUEST_EVENTS = 64,
	GUEST_UAR = 17,
	GUEST_PD = 5,
};

struct guest_event {
	enum sn_bridge_event event;
	uint32_t number, user;
};

struct guest {
	struct sn_bridge *bridge;
	uint8_t *ram;
	int fd;
	bool translated;	 /* behind an IOMMU */
	_Atomic uint32_t strays; /* how often the bridge said that there is one */
	uint32_t given;		 /* pages handed out */
	pthread_mutex_t lock;
	struct guest_event event[GUEST_EVENTS];
	uint32_t told, heard; /* events told, and taken by the test */
};

/* Bytes in scattered pages. */
struct guest_buffer {
	uint64_t page[64];
	uint32_t pages;
};

struct guest_cq {
	struct guest *guest;
	uint32_t number, consumed, arm_sn;
	struct guest_buffer ring;
	uint64_t record;
};

struct guest_qp {
	struct guest *guest;
	uint32_t number;
	uint16_t sq_pi, rq_pi;
	struct guest_buffer ring;
	uint64_t record;
};

struct guest_completion {
	uint8_t opcode, syndrome;
	uint16_t index;
	uint32_t bytes, qpn, imm, source_qpn;
};

/* A send request. imm is in network order. */
struct guest_request {
	uint8_t opcode;
	uint32_t rkey, imm, lkey, bytes;
	uint64_t remote, local;	      /* addresses, by the keys */
	uint64_t swap_add, compare;   /* atomics */
	const struct mlx5_wqe_av *av; /* datagrams */
};

void guest_start(struct guest *guest, const char *fabric, uint32_t host, uint32_t nic);
/* The same behind an IOMMU that maps all of the guest's pages, each where no other one is. */
void guest_start_translated(struct guest *guest, const char *fabric, uint32_t host, uint32_t nic);
void guest_stop(struct guest *guest);

/* The guest address that a DMA address is made of, and where that is in this process. */
uint64_t guest_ram_of(const struct guest *guest, uint64_t dma);
uint8_t *guest_ram(const struct guest *guest, uint64_t dma);
/* Maps DMA addresses to what they are made of. */
void guest_map(struct guest *guest, uint64_t dma, uint64_t bytes, bool writable);

struct guest_buffer guest_pages(struct guest *guest, uint32_t pages);
struct sn_bridge_pages guest_list(const struct guest_buffer *buffer);
void *guest_at(struct guest *guest, const struct guest_buffer *buffer, uint64_t offset);
void guest_fill(struct guest *guest, const struct guest_buffer *buffer, uint64_t bytes,
		uint8_t seed);
/* Whether the bytes are those of guest_fill(). */
bool guest_holds(struct guest *guest, const struct guest_buffer *buffer, uint64_t bytes,
		 uint8_t seed);

/* A key of all guest memory, and one of a buffer that begins at the address `start`. */
uint32_t guest_physical_key(struct guest *guest, uint8_t variant);
uint32_t guest_key(struct guest *guest, const struct guest_buffer *buffer, uint64_t start,
		   uint64_t bytes, uint32_t access, uint8_t variant);

void guest_cq_make(struct guest *guest, struct guest_cq *cq, uint32_t user);
bool guest_poll(struct guest_cq *cq, struct guest_completion *wc);
struct guest_completion guest_wait(struct guest_cq *cq); /* ends the program after some seconds */
void guest_arm(struct guest_cq *cq);

void guest_qp_make(struct guest *guest, struct guest_qp *qp, enum sn_bridge_transport transport,
		   const struct guest_cq *cq, uint32_t srq);
/* Takes the QP to RTS, connected to a QP of that NIC. */
void guest_connect(struct guest_qp *qp, struct sn_bridge *peer, uint32_t remote_qpn);
uint16_t guest_post(struct guest_qp *qp, const struct guest_request *request);
/* Posts a request that is written but for its first 12 bytes; bytes: a multiple of 16. */
uint16_t guest_post_raw(struct guest_qp *qp, uint8_t opcode, uint8_t *wqe, uint32_t bytes);
void guest_post_recv(struct guest_qp *qp, uint32_t lkey, uint64_t at, uint32_t bytes);

/* Takes the next event; it ends the program after some seconds. */
struct guest_event guest_event(struct guest *guest);
bool guest_has_event(struct guest *guest);

#endif
