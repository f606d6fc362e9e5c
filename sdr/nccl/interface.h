/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NCCL's interface for network plugins, versions 10, 11 and 12, in declarations of our own. The
 * order of members, their types, the numbers and the symbols are NCCL 2.30's (plugins/net, and
 * src/include/plugin/net/net_v10.h to net_v12.h in its repository). Version 10 came with NCCL 2.26,
 * 11 with 2.28 and 12 with 2.30. The asserts at the end hold sizes and offsets that a compiler gave
 * for NCCL's own headers on x86-64; all LP64 machines have the same.
 */
#ifndef SDR_NCCL_INTERFACE_H
#define SDR_NCCL_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6
};

enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3, NCCL_LOG_TRACE = 5 };
enum nccl_log_part { NCCL_PART_INIT = 0x1, NCCL_PART_NET = 0x10, NCCL_PART_ALL = ~0 };

/* Kinds of memory, and the set of those that a device can reach. */
enum nccl_ptr { NCCL_PTR_HOST = 1, NCCL_PTR_CUDA = 2, NCCL_PTR_DMABUF = 4 };

enum {
	NCCL_HANDLE_MAX = 128,	/* bytes of a handle */
	NCCL_REQUESTS_MAX = 32, /* of a communicator; version 10's NCCL: 8 */
	NCCL_DEVICE_HOST = 0,
	NCCL_UNDEFINED = -1
};

/* NCCL sets *request of a receive to this where the data itself tells that it is there. */
#define NCCL_OPTIONAL_COMPLETION ((void *)1)

typedef void (*nccl_logger)(enum nccl_log_level level, unsigned long parts, const char *file,
			    int line, const char *format, ...);
typedef enum nccl_result (*nccl_profiler)(void **event, int type, void *parent, int64_t plugin,
					  void *data);

/* Devices that were made one. */
struct nccl_vdevice_v11 {
	int n;
	int devices[4];
};

struct nccl_vdevice_v12 {
	int n;
	int devices[8];
};

struct nccl_config {
	int traffic_class;
};

struct nccl_comm_attr {
	int32_t max_peers, min_peers, max_flows, min_flows;
};

struct nccl_attr {
	struct nccl_comm_attr send, recv;
	uint32_t op, algorithm, protocol;
};

/* What all versions have first. speed: Mbit/s; latency: microseconds. */
#define NCCL_PROPERTIES                                                                            \
	char *name;                                                                                \
	char *pci_path;                                                                            \
	uint64_t guid;                                                                             \
	int ptr_support, reg_is_global, force_flush, speed, port;                                  \
	float latency;                                                                             \
	int max_comms, max_recvs, device_type, device_version;

struct nccl_properties_v10 {
	NCCL_PROPERTIES
	struct nccl_vdevice_v11 vdevice;
	size_t max_p2p_bytes, max_coll_bytes;
};

struct nccl_properties_v11 {
	NCCL_PROPERTIES
	struct nccl_vdevice_v11 vdevice;
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
};

struct nccl_properties_v12 {
	NCCL_PROPERTIES
	struct nccl_vdevice_v12 vdevice;
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
	int16_t rail, plane;
};

/* The calls that all versions share, from accept to irecv_consumed. */
#define NCCL_CALLS                                                                                 \
	enum nccl_result (*accept)(void *listener, void **comm, void **device_comm);               \
	enum nccl_result (*reg_mr)(void *comm, void *data, size_t size, int type, void **mhandle); \
	enum nccl_result (*reg_mr_dmabuf)(void *comm, void *data, size_t size, int type,           \
					  uint64_t offset, int fd, void **mhandle);                \
	enum nccl_result (*dereg_mr)(void *comm, void *mhandle);                                   \
	enum nccl_result (*isend)(void *comm, void *data, size_t size, int tag, void *mhandle,     \
				  void *phandle, void **request);                                  \
	enum nccl_result (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags,        \
				  void **mhandles, void **phandles, void **request);               \
	enum nccl_result (*iflush)(void *comm, int n, void **data, int *sizes, void **mhandles,    \
				   void **request);                                                \
	enum nccl_result (*test)(void *request, int *done, int *sizes);                            \
	enum nccl_result (*close_send)(void *comm);                                                \
	enum nccl_result (*close_recv)(void *comm);                                                \
	enum nccl_result (*close_listen)(void *listener);                                          \
	enum nccl_result (*get_device_mr)(void *comm, void *mhandle, void **device_mhandle);       \
	enum nccl_result (*irecv_consumed)(void *comm, int n, void *request);

struct nccl_net_v10 {
	const char *name;
	enum nccl_result (*init)(nccl_logger logger, nccl_profiler profiler);
	enum nccl_result (*devices)(int *n);
	enum nccl_result (*get_properties)(int device, struct nccl_properties_v10 *properties);
	enum nccl_result (*listen)(int device, void *handle, void **listener);
	enum nccl_result (*connect)(int device, struct nccl_config *config, void *handle,
				    void **comm, void **device_comm);
	NCCL_CALLS
	enum nccl_result (*make_vdevice)(int *device, struct nccl_vdevice_v11 *vdevice);
};

struct nccl_net_v11 {
	const char *name;
	enum nccl_result (*init)(void **context, uint64_t id, struct nccl_config *config,
				 nccl_logger logger, nccl_profiler profiler);
	enum nccl_result (*devices)(int *n);
	enum nccl_result (*get_properties)(int device, struct nccl_properties_v11 *properties);
	enum nccl_result (*listen)(void *context, int device, void *handle, void **listener);
	enum nccl_result (*connect)(void *context, int device, void *handle, void **comm,
				    void **device_comm);
	NCCL_CALLS
	enum nccl_result (*make_vdevice)(int *device, struct nccl_vdevice_v11 *vdevice);
	enum nccl_result (*finalize)(void *context);
	enum nccl_result (*set_attr)(void *context, struct nccl_attr *attr);
};

struct nccl_net_v12 {
	const char *name;
	enum nccl_result (*init)(void **context, uint64_t id, struct nccl_config *config,
				 nccl_logger logger, nccl_profiler profiler);
	enum nccl_result (*devices)(int *n);
	enum nccl_result (*get_properties)(int device, struct nccl_properties_v12 *properties);
	enum nccl_result (*listen)(void *context, int device, void *handle, void **listener);
	enum nccl_result (*connect)(void *context, int device, void *handle, void **comm,
				    void **device_comm);
	NCCL_CALLS
	enum nccl_result (*make_vdevice)(int *device, struct nccl_vdevice_v12 *vdevice);
	enum nccl_result (*finalize)(void *context);
	enum nccl_result (*set_attr)(void *context, struct nccl_attr *attr);
};

/* The symbols that NCCL looks for, the newest first. */
#define NCCL_NET_SYMBOL_V10 "ncclNetPlugin_v10"
#define NCCL_NET_SYMBOL_V11 "ncclNetPlugin_v11"
#define NCCL_NET_SYMBOL_V12 "ncclNetPlugin_v12"

#ifdef __LP64__
#define NCCL_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define NCCL_PLACE(type, member, place)                                                            \
	_Static_assert(offsetof(struct type, member) == (place), #type "." #member)
#define NCCL_PLACES(version)                                                                       \
	NCCL_PLACE(nccl_properties_##version, guid, 16);                                           \
	NCCL_PLACE(nccl_properties_##version, ptr_support, 24);                                    \
	NCCL_PLACE(nccl_properties_##version, latency, 44);                                        \
	NCCL_PLACE(nccl_properties_##version, device_version, 60);                                 \
	NCCL_PLACE(nccl_properties_##version, vdevice, 64);                                        \
	NCCL_PLACE(nccl_net_##version, init, 8);                                                   \
	NCCL_PLACE(nccl_net_##version, listen, 32);                                                \
	NCCL_PLACE(nccl_net_##version, connect, 40);                                               \
	NCCL_PLACE(nccl_net_##version, accept, 48);                                                \
	NCCL_PLACE(nccl_net_##version, dereg_mr, 72);                                              \
	NCCL_PLACE(nccl_net_##version, isend, 80);                                                 \
	NCCL_PLACE(nccl_net_##version, irecv, 88);                                                 \
	NCCL_PLACE(nccl_net_##version, test, 104);                                                 \
	NCCL_PLACE(nccl_net_##version, close_listen, 128);                                         \
	NCCL_PLACE(nccl_net_##version, irecv_consumed, 144);                                       \
	NCCL_PLACE(nccl_net_##version, make_vdevice, 152)

NCCL_PLACES(v10);
NCCL_PLACES(v11);
NCCL_PLACES(v12);
NCCL_SIZE(nccl_properties_v10, 104);
NCCL_SIZE(nccl_properties_v11, 112);
NCCL_SIZE(nccl_properties_v12, 128);
NCCL_PLACE(nccl_properties_v10, max_p2p_bytes, 88);
NCCL_PLACE(nccl_properties_v11, max_multi_request, 104);
NCCL_PLACE(nccl_properties_v12, max_p2p_bytes, 104);
NCCL_PLACE(nccl_properties_v12, rail, 124);
NCCL_SIZE(nccl_net_v10, 160);
NCCL_SIZE(nccl_net_v11, 176);
NCCL_SIZE(nccl_net_v12, 176);
NCCL_PLACE(nccl_net_v12, finalize, 160);
NCCL_SIZE(nccl_attr, 44);
NCCL_SIZE(nccl_config, 4);
#endif

#endif
