// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory that no exported verb registers: of the device, by DEVX, by direct verbs, by commands of one's
 * own. The runner says which; each is used, and freed.
 *
 * usage: unseen SCENARIO --server|--client PORT
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/pair.h"

struct options opt = { .timeout = 18, .dev = "mlx5_0" };

/* What a request needs to name such memory. */
struct place {
	uint64_t addr;
	uint32_t key, handle;
	void *object, *region;
};

/* ---- keys by commands: CREATE_MKEY of the PRM, one that stands for a connection's memory -------- */

enum { MKC_AT = 16, KLM_AT = 272, COMMAND_BYTES = KLM_AT + 64 };

static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t pd_number(struct ibv_pd *pd)
{
	struct mlx5dv_pd out = { 0 };
	struct mlx5dv_obj obj = { .pd = { pd, &out } };

	must_zero(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), "mlx5dv_init_obj of a PD");
	return out.pdn;
}

static void key_command(uint8_t in[COMMAND_BYTES], const struct conn *c)
{
	const uint32_t write =
		1 << 13 | 1 << 12 | 1 << 11 | 1 << 10; /* and read, remote and local */

	memset(in, 0, COMMAND_BYTES);
	put32(in, 0x200 << 16);
	put32(in + MKC_AT, write | 2 << 8);
	put32(in + MKC_AT + 4, 0xffffffu << 8 | 0x42);
	put32(in + MKC_AT + 12, pd_number(c->nic->pd));
	put64(in + MKC_AT + 16, (uintptr_t)c->mem);
	put64(in + MKC_AT + 24, 2 * AREA);
	put32(in + MKC_AT + 52, 1);
	put32(in + 96, 1);
	put32(in + KLM_AT, 2 * AREA);
	put32(in + KLM_AT + 4, c->mr->lkey);
	put64(in + KLM_AT + 8, (uintptr_t)c->mem);
}

static uint32_t key_answer(const uint8_t out[16])
{
	uint32_t index;

	memcpy(&index, out + 8, sizeof(index));
	return be32toh(index) << 8 | 0x42;
}

static void devx_make(struct conn *c, struct place *place)
{
	uint8_t in[COMMAND_BYTES], out[16] = { 0 };

	key_command(in, c);
	place->object = mlx5dv_devx_obj_create(c->nic->ctx, in, sizeof(in), out, sizeof(out));
	must(place->object, "mlx5dv_devx_obj_create of a key");
	place->key = key_answer(out);
	place->addr = (uintptr_t)c->mem;
}

static void devx_free(struct place *place)
{
	must_zero(mlx5dv_devx_obj_destroy(place->object), "mlx5dv_devx_obj_destroy");
}

/* The same past libibverbs, as nobody should. */
static void stray_ioctl(struct ibv_context *ctx, uint16_t method, struct ib_uverbs_attr *attrs,
			uint16_t n)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[3];
	} cmd = { .hdr = { .length = (uint16_t)(sizeof(cmd.hdr) + n * sizeof(*attrs)),
			   .object_id = MLX5_IB_OBJECT_DEVX_OBJ,
			   .method_id = method,
			   .num_attrs = n } };

	memcpy(cmd.attrs, attrs, n * sizeof(*attrs));
	must_zero(ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &cmd), "ioctl of a key");
	memcpy(attrs, cmd.attrs, n * sizeof(*attrs));
}

static void stray_make(struct conn *c, struct place *place)
{
	uint8_t in[COMMAND_BYTES], out[16] = { 0 };
	struct ib_uverbs_attr attrs[] = {
		{ .attr_id = MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE },
		{ .attr_id = MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
		  .len = sizeof(in),
		  .data = (uintptr_t)in },
		{ .attr_id = MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
		  .len = sizeof(out),
		  .data = (uintptr_t)out },
	};

	for (int i = 0; i < 3; i++)
		attrs[i].flags = UVERBS_ATTR_F_MANDATORY;
	key_command(in, c);
	stray_ioctl(c->nic->ctx, MLX5_IB_METHOD_DEVX_OBJ_CREATE, attrs, 3);
	place->key = key_answer(out);
	place->handle = (uint32_t)attrs[0].data;
	place->addr = (uintptr_t)c->mem;
}

static void stray_free(struct conn *c, struct place *place)
{
	struct ib_uverbs_attr attr = { .attr_id = MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
				       .flags = UVERBS_ATTR_F_MANDATORY,
				       .data = place->handle };

	stray_ioctl(c->nic->ctx, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, &attr, 1);
}

/* ---- others ----------------------------------------------------------------------------------- */

static void dm_make(struct conn *c, struct place *place)
{
	struct ibv_alloc_dm_attr attr = { .length = 2 * PART };
	char bytes[PART];

	place->object = ibv_alloc_dm(c->nic->ctx, &attr);
	must(place->object, "ibv_alloc_dm");
	memset(bytes, 0x5a, sizeof(bytes));
	must_zero(ibv_memcpy_to_dm(place->object, PART, bytes, sizeof(bytes)), "ibv_memcpy_to_dm");
	place->region = ibv_reg_dm_mr(c->nic->pd, place->object, 0, 2 * PART,
				      IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
					      IBV_ACCESS_REMOTE_WRITE);
	must(place->region, "ibv_reg_dm_mr");
	place->key = ((struct ibv_mr *)place->region)->lkey;
	place->addr = PART;
}

static void dm_free(struct place *place)
{
	must_zero(ibv_dereg_mr(place->region), "ibv_dereg_mr of device memory");
	must_zero(ibv_free_dm(place->object), "ibv_free_dm");
}

/* For UMR: it names nothing yet. */
static void mkey_make(struct conn *c, struct place *place)
{
	struct mlx5dv_mkey_init_attr attr = { .pd = c->nic->pd,
					      .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					      .max_entries = 4 };

	place->object = mlx5dv_create_mkey(&attr);
	must(place->object, "mlx5dv_create_mkey");
	place->key = 0;
}

static void mkey_free(struct place *place)
{
	must_zero(mlx5dv_destroy_mkey(place->object), "mlx5dv_destroy_mkey");
}

/* ---- use -------------------------------------------------------------------------------------- */

static void write_post(struct conn *c, const struct place *from, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = { from->addr, PART, from->key };
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { to, rkey } },
			   *bad;

	must_zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
}

static void writes(struct conn *c, const struct place *from, uint64_t to, uint32_t rkey, int n)
{
	struct ibv_wc wc;
	int i;

	for (i = 0; i < n; i++)
		write_post(c, from, to, rkey);
	for (i = 0; i < n; i++) {
		must(!conn_poll(c, &wc), "a good completion of a WRITE");
		must(wc.wr_id == 7, "its number");
	}
}

/* The server has the memory, both lose and get back their protection. */
static void run_marked(struct conn *c, const char *kind)
{
	struct place place = { 0 };

	hear(kind);
	if (opt.server && !strcmp(kind, "dm"))
		dm_make(c, &place);
	if (opt.server && !strcmp(kind, "devx"))
		devx_make(c, &place);
	if (opt.server && !strcmp(kind, "mkey"))
		mkey_make(c, &place);
	say("MADE %s", kind);
	hear("use");
	if (place.key)
		writes(c, &place, c->peer.addr, c->peer.rkey, 4);
	meet();
	if (opt.server && !strcmp(kind, "dm"))
		dm_free(&place);
	if (opt.server && !strcmp(kind, "devx"))
		devx_free(&place);
	if (opt.server && !strcmp(kind, "mkey"))
		mkey_free(&place);
	say("FREED %s", kind);
}

/* Protection comes back with the last that stood in its way. */
static void run_both(struct conn *c)
{
	struct place dm = { 0 }, key = { 0 };

	hear("both");
	if (opt.server) {
		dm_make(c, &dm);
		devx_make(c, &key);
	}
	say("MADE both");
	hear("half");
	if (opt.server)
		dm_free(&dm);
	say("HALF");
	hear("use");
	if (opt.server)
		devx_free(&key);
	say("FREED both");
}

/* The client's own key, or the server's, which the client writes to: until the runner has seen it. */
static void run_stray(struct conn *c, bool remote)
{
	struct place place = { 0 }, theirs = { 0 };
	struct place own = { (uintptr_t)c->mem, c->mr->lkey, 0, NULL, NULL };

	hear("go");
	if (opt.server == remote)
		stray_make(c, &place);
	swap(&place, &theirs, sizeof(place));
	say("USED");
	do {
		if (!opt.server && remote)
			writes(c, &own, theirs.addr + AREA, theirs.key, 16);
		else if (!opt.server)
			writes(c, &place, c->peer.addr + AREA, c->peer.rkey, 16);
		else
			usleep(1000);
	} while (!both_told());
	hear("stop");
	meet();
	if (opt.server == remote)
		stray_free(c, &place);
	say("STOPPED");
}

/* A receive that waits with it, while the NIC has nothing else to do. */
static void run_receive(struct conn *c)
{
	struct place place = { 0 };
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad;

	hear("go");
	if (opt.server) {
		stray_make(c, &place);
		sge = (struct ibv_sge){ place.addr + AREA, PART, place.key };
		must_zero(ibv_post_recv(c->qp, &wr, &bad), "ibv_post_recv");
	}
	say("USED");
	hear("stop");
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	c->qp = NULL;
	if (opt.server)
		stray_free(c, &place);
}

/* ---- dma-buf with a path of its own (data direct): mlx5dv_reg_dmabuf_mr of newer libmlx5 --------- */

enum { DIRECT = 1, DIRECT_ATTR = 1 << UVERBS_ID_NS_SHIFT };

/* What it adds to the command: struct ibv_command_buffer. */
struct added {
	void *next;
	struct ib_uverbs_attr *end, *last;
	uint8_t flags[8];
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attr;
};

typedef int (*cmd_reg_fn)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int, void *, void *);

static __thread bool direct_asked;
bool simnic_data_direct(void);

/* The installed libibverbs may be too old to pass it. */
__attribute__((visibility("default"))) bool simnic_data_direct(void)
{
	return direct_asked;
}

/* Stands in for that of newer libmlx5. libmlx5 frees the struct. */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);
__attribute__((visibility("default"))) struct ibv_mr *
mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		     int access, int mlx5_access)
{
	struct added added = { .end = &added.attr + 1,
			       .hdr = { .object_id = UVERBS_OBJECT_MR,
					.method_id = UVERBS_METHOD_REG_DMABUF_MR },
			       .attr = { .attr_id = DIRECT_ATTR,
					 .len = sizeof(uint32_t),
					 .data = (uint32_t)mlx5_access } };
	cmd_reg_fn reg = (cmd_reg_fn)dlsym(RTLD_DEFAULT, "ibv_cmd_reg_dmabuf_mr");
	struct ibv_mr *mr = calloc(1, sizeof(*mr) + 64);

	must(reg && mr, "ibv_cmd_reg_dmabuf_mr of libibverbs");
	errno = EOPNOTSUPP;
	direct_asked = mlx5_access & DIRECT;
	if ((getenv("DIRECT_ON") && strcmp(getenv("DIRECT_ON"), pd->context->device->name)) ||
	    reg(pd, offset, length, iova, fd, access, mr, &added)) {
		free(mr);
		mr = NULL;
	}
	direct_asked = false;
	return mr;
}

static void use_buffer(struct conn *c)
{
	int fd = memfd_create("bar1", MFD_CLOEXEC); /* no NIC reaches it by a plain registration */

	must(fd >= 0, "memfd_create");
	must_zero(ibv_dereg_mr(c->mr), "ibv_dereg_mr");
	free(c->mem);
	must_zero(ftruncate(fd, 2 * AREA), "ftruncate");
	c->mem = mmap(NULL, 2 * AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(c->mem != MAP_FAILED, "mmap");
	c->mr = mlx5dv_reg_dmabuf_mr(c->nic->pd, 0, 2 * AREA, (uintptr_t)c->mem, fd,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, DIRECT);
	must(c->mr, "mlx5dv_reg_dmabuf_mr");
	must_zero(close(fd), "close");
}

static void run_direct(struct conn *c)
{
	hear("go");
	conn_talk(c, 20000);
	meet();
	must_zero(ibv_destroy_qp(c->qp), "ibv_destroy_qp");
	c->qp = NULL;
	must_zero(ibv_dereg_mr(c->mr), "ibv_dereg_mr");
	must_zero(munmap(c->mem, 2 * AREA), "munmap");
	c->mr = NULL;
}

static void run_kinds(struct conn *c, char *list)
{
	for (const char *kind = strtok(list, ","); kind; kind = strtok(NULL, ","))
		run_marked(c, kind);
	run_both(c);
}

int main(int argc, char **argv)
{
	const char *what = argc == 4 ? argv[1] : "";
	bool direct = !strcmp(what, "direct"), bare = !strcmp(what, "receive");
	struct nic nic;
	struct conn c;

	must(argc == 4, "usage: unseen SCENARIO --server|--client PORT");
	opt.server = !strcmp(argv[2], "--server");
	opt.port = atoi(argv[3]);
	setvbuf(stdin, NULL, _IONBF, 0);
	line_open();
	nic_open(&nic, opt.dev);
	conn_make(&c, &nic);
	if (direct)
		use_buffer(&c);
	if (bare)
		conn_connect_bare(&c);
	else
		conn_connect(&c);
	say("CONNECTED");
	if (direct)
		run_direct(&c);
	else if (bare)
		run_receive(&c);
	else if (!strcmp(what, "local") || !strcmp(what, "remote"))
		run_stray(&c, *what == 'r');
	else
		run_kinds(&c, argv[1]);
	hear("end");
	say("OK");
	return 0;
}
