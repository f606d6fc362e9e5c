/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What NCCL finds in the library: a table of calls for each version of its interface. The versions
 * differ in how they begin and in what they ask of a device; the calls of a connection are the
 * same.
 */
#include "log.h"
#include "meet.h"

#include <errno.h>
#include <string.h>

#define PLUG_API __attribute__((visibility("default")))

static pthread_mutex_t begin_lock = PTHREAD_MUTEX_INITIALIZER;
static bool begun; /* guarded by begin_lock */
static struct plug_settings settings;

static enum nccl_result result_of(int err)
{
	if (!err)
		return NCCL_SUCCESS;
	if (err == -EINVAL)
		return NCCL_INVALID_ARGUMENT;
	return err == -ECONNRESET || err == -ECONNREFUSED || err == -ETIMEDOUT ? NCCL_REMOTE_ERROR
									       : NCCL_SYSTEM_ERROR;
}

/* ---- begin and devices ----------------------------------------------------------------------- */

/* NCCL begins the plugin for each of its communicators; settings and devices stay. */
static enum nccl_result begin(nccl_logger logger)
{
	int err = 0;

	pthread_mutex_lock(&begin_lock);
	plug_log_to(logger);
	if (!begun)
		err = plug_settings_read(&settings);
	if (!begun && !err)
		err = plug_devices_find(&settings);
	begun = begun || !err;
	pthread_mutex_unlock(&begin_lock);
	if (err == -ENODEV)
		PLUG_INFO("no NIC has an active port");
	return result_of(err);
}

static enum nccl_result net_devices(int *n)
{
	*n = (int)plug_devices_count();
	return NCCL_SUCCESS;
}

#define PROPERTIES_FILL(p, d)                                                                      \
	do {                                                                                       \
		memset((p), 0, sizeof(*(p)));                                                      \
		(p)->name = (char *)(d)->name;                                                     \
		(p)->pci_path = (d)->pci_path;                                                     \
		(p)->guid = (d)->guid;                                                             \
		(p)->ptr_support = NCCL_PTR_HOST;                                                  \
		(p)->speed = (d)->speed_mbps;                                                      \
		(p)->port = 1;                                                                     \
		(p)->max_comms = 64 << 10;                                                         \
		(p)->max_recvs = PLUG_RECVS_MAX;                                                   \
		(p)->device_type = NCCL_DEVICE_HOST;                                               \
		(p)->vdevice.n = 1;                                                                \
		(p)->vdevice.devices[0] = device;                                                  \
		(p)->max_p2p_bytes = (p)->max_coll_bytes = settings.max_message;                   \
	} while (0)

static enum nccl_result properties_v10(int device, struct nccl_properties_v10 *p)
{
	const struct plug_device *d = plug_device_at(device);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	PROPERTIES_FILL(p, d);
	return NCCL_SUCCESS;
}

static enum nccl_result properties_v11(int device, struct nccl_properties_v11 *p)
{
	const struct plug_device *d = plug_device_at(device);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	PROPERTIES_FILL(p, d);
	p->max_multi_request = 1;
	return NCCL_SUCCESS;
}

static enum nccl_result properties_v12(int device, struct nccl_properties_v12 *p)
{
	const struct plug_device *d = plug_device_at(device);

	if (!d)
		return NCCL_INVALID_ARGUMENT;
	PROPERTIES_FILL(p, d);
	p->max_multi_request = 1;
	p->rail = p->plane = NCCL_UNDEFINED;
	return NCCL_SUCCESS;
}

/* ---- connections ----------------------------------------------------------------------------- */

static enum nccl_result net_accept(void *listener, void **comm, void **device_comm)
{
	if (device_comm)
		*device_comm = NULL;
	return result_of(plug_accept(listener, (struct plug_comm **)comm));
}

static enum nccl_result net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	if (type == NCCL_PTR_HOST)
		return plug_comm_reg(comm, data, size, (struct plug_region **)mhandle);
	PLUG_WARN("memory of type %d is not a host's", type);
	return NCCL_INVALID_ARGUMENT;
}

static enum nccl_result net_dereg_mr(void *comm, void *mhandle)
{
	return mhandle ? plug_comm_dereg(comm, mhandle) : NCCL_SUCCESS;
}

static enum nccl_result net_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
				  void *phandle, void **request)
{
	return plug_comm_send(comm, data, size, tag, mhandle, (struct plug_request **)request);
}

static enum nccl_result net_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
				  void **mhandles, void **phandles, void **request)
{
	return plug_comm_recv(comm, n, data, sizes, tags, (struct plug_region **)mhandles,
			      (struct plug_request **)request);
}

/* Host memory holds what has come: no request is needed. */
static enum nccl_result net_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
				   void **request)
{
	*request = NULL;
	return NCCL_SUCCESS;
}

static enum nccl_result net_test(void *request, int *done, int *sizes)
{
	return plug_comm_test(request, done, sizes);
}

static enum nccl_result net_close(void *comm)
{
	if (comm)
		plug_comm_close(comm);
	return NCCL_SUCCESS;
}

static enum nccl_result net_close_listen(void *listener)
{
	if (listener)
		plug_listener_close(listener);
	return NCCL_SUCCESS;
}

/* ---- version 10 ------------------------------------------------------------------------------ */

static enum nccl_result init_v10(nccl_logger logger, nccl_profiler profiler)
{
	return begin(logger);
}

static enum nccl_result listen_v10(int device, void *handle, void **listener)
{
	return result_of(plug_listen(&settings, device, handle, (struct plug_listener **)listener));
}

static enum nccl_result connect_v10(int device, struct nccl_config *config, void *handle,
				    void **comm, void **device_comm)
{
	if (device_comm)
		*device_comm = NULL;
	return result_of(plug_connect(&settings, device, handle, (struct plug_comm **)comm));
}

/* ---- versions 11 and 12 ---------------------------------------------------------------------- */

static enum nccl_result init_v11(void **context, uint64_t id, struct nccl_config *config,
				 nccl_logger logger, nccl_profiler profiler)
{
	*context = &settings;
	return begin(logger);
}

static enum nccl_result listen_v11(void *context, int device, void *handle, void **listener)
{
	return listen_v10(device, handle, listener);
}

static enum nccl_result connect_v11(void *context, int device, void *handle, void **comm,
				    void **device_comm)
{
	return connect_v10(device, NULL, handle, comm, device_comm);
}

static enum nccl_result net_finalize(void *context)
{
	return NCCL_SUCCESS;
}

/* How NCCL will use its connections changes nothing here. */
static enum nccl_result net_set_attr(void *context, struct nccl_attr *attr)
{
	return NCCL_SUCCESS;
}

#define CALLS                                                                                      \
	.accept = net_accept, .reg_mr = net_reg_mr, .dereg_mr = net_dereg_mr, .isend = net_isend,  \
	.irecv = net_irecv, .iflush = net_iflush, .test = net_test, .close_send = net_close,       \
	.close_recv = net_close, .close_listen = net_close_listen

PLUG_API struct nccl_net_v10 ncclNetPlugin_v10 = {
	.name = "SDR",
	.init = init_v10,
	.devices = net_devices,
	.get_properties = properties_v10,
	.listen = listen_v10,
	.connect = connect_v10,
	CALLS,
};

PLUG_API struct nccl_net_v11 ncclNetPlugin_v11 = {
	.name = "SDR",
	.init = init_v11,
	.devices = net_devices,
	.get_properties = properties_v11,
	.listen = listen_v11,
	.connect = connect_v11,
	CALLS,
	.finalize = net_finalize,
	.set_attr = net_set_attr,
};

PLUG_API struct nccl_net_v12 ncclNetPlugin_v12 = {
	.name = "SDR",
	.init = init_v11,
	.devices = net_devices,
	.get_properties = properties_v12,
	.listen = listen_v11,
	.connect = connect_v11,
	CALLS,
	.finalize = net_finalize,
	.set_attr = net_set_attr,
};
