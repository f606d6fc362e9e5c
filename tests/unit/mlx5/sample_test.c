/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Keys that are in use, out of the rings; and keys that a program's own commands make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "tests/lib/mlx5_rig.h"

enum { ROOM = 64 };

static const struct fake_geometry geometry = { 16, 16, 4, 16, 4, false };
static struct rig *rig;

static int setup(void **state)
{
	rig = rig_new(&geometry, 64, false);
	return 0;
}

static int teardown(void **state)
{
	rig_delete(rig);
	return 0;
}

static bool in_use(bool sends, uint32_t turn, uint32_t key, bool remote)
{
	struct sp_key keys[ROOM];
	uint32_t n = ENGINE->qp.keys(rig->sp, sends, turn, keys, ROOM);

	for (uint32_t i = 0; i < n; i++)
		if (keys[i].key == key && keys[i].remote == remote)
			return true;
	return false;
}

static uint32_t number_of_keys(void)
{
	struct sp_key keys[ROOM];

	return ENGINE->qp.keys(rig->sp, true, 0, keys, ROOM);
}

/* The application's keys, whatever the ring that it is in has. */
static void sends_have(uint64_t id)
{
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED, 2), 0);
	assert_true(in_use(true, 0, fake_rkey(id), true));
	assert_true(in_use(true, 0, fake_lkey(id), false));
	assert_true(in_use(true, 0, fake_lkey(id + 16), false));
	assert_false(in_use(false, 0, fake_rkey(id), true));
	assert_false(in_use(true, 0, fake_rkey(id) ^ 0x100, true));
}

static void keys_of_requests(void **state)
{
	struct ibv_wc wc[16];

	sends_have(0x100);
	sends_have(0x200);
	assert_true(in_use(true, 0, fake_rkey(0x100), true));
	fake_run(rig_active(rig), 16);
	assert_int_equal(rig_poll(rig, true, wc, 16), 2);
	assert_int_equal(rig_move(rig, &geometry), 0);
	sends_have(0x300);
	assert_false(in_use(true, 0, fake_rkey(0x100), true));
}

static void keys_of_receives(void **state)
{
	bool found = false;

	for (uint64_t id = 0x10; id < 0xa0; id += 0x10)
		assert_int_equal(rig_recv(rig, id, 1), 0);
	assert_true(in_use(false, 0, fake_lkey(0x90), false));
	for (uint32_t turn = 0; turn < 8; turn++)
		found |= in_use(false, turn, fake_lkey(0x10), false);
	assert_true(found);
	assert_int_equal(rig_move(rig, &geometry), 0);
	assert_true(in_use(false, 0, fake_lkey(0x90), false));
}

/* What is done says nothing: its memory may be free, its key another's. */
static void keys_of_the_past_are_none(void **state)
{
	struct ibv_wc wc[16];

	assert_int_equal(number_of_keys(), 0);
	assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, 0x100, IBV_SEND_SIGNALED, 1), 0);
	assert_int_equal(rig_recv(rig, 0x20, 1), 0);
	assert_true(number_of_keys() >= 3);
	fake_run(rig_active(rig), 16);
	assert_true(fake_receive(rig_active(rig), MLX5_CQE_RESP_SEND, NULL, 8));
	assert_int_equal(rig_poll(rig, true, wc, 16), 1);
	assert_int_equal(rig_poll(rig, false, wc, 16), 1);
	assert_int_equal(number_of_keys(), 0);
}

static void no_more_than_there_is_room_for(void **state)
{
	struct sp_key keys[3];

	for (uint64_t id = 0x100; id < 0x900; id += 0x100)
		assert_int_equal(rig_send(rig, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED, 2), 0);
	assert_int_equal(ENGINE->qp.keys(rig->sp, true, 0, keys, 3), 3);
	assert_int_equal(ENGINE->qp.keys(rig->sp, true, 0, keys, 0), 0);
}

/* ---- commands ---------------------------------------------------------------------------------- */

static struct {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[2];
} command;
static uint8_t in[64];

static struct sp_key_command create(uint16_t opcode, uint16_t len)
{
	struct sp_key_command out = { .what = SP_KEY_NONE };

	in[0] = (uint8_t)(opcode >> 8);
	in[1] = (uint8_t)opcode;
	command.hdr = (struct ib_uverbs_ioctl_hdr){ .object_id = MLX5_IB_OBJECT_DEVX_OBJ,
						    .method_id = MLX5_IB_METHOD_DEVX_OBJ_CREATE,
						    .num_attrs = 2 };
	command.attrs[0] = (struct ib_uverbs_attr){ .attr_id = MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
						    .len = len,
						    .data = (uintptr_t)in };
	command.attrs[1] = (struct ib_uverbs_attr){ .attr_id = MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
						    .data = 7 };
	ENGINE->key_command(&command.hdr, &out);
	return out;
}

static void keys_by_commands(void **state)
{
	struct sp_key_command made;

	memset(in, 0, sizeof(in));
	in[28] = 0xff; /* of something else */
	in[30] = 0x12;
	in[31] = 0x34;
	made = create(0x200, sizeof(in));
	assert_int_equal(made.what, SP_KEY_MADE);
	assert_int_equal(made.pd, 0x1234);
	assert_int_equal(made.object, 7);
	assert_int_equal(create(0x200, 8).what, SP_KEY_NONE);
	assert_int_equal(create(0x200, 16).pd, SP_PD_ANY);
	assert_int_equal(create(0xa00, sizeof(in)).what, SP_KEY_NONE); /* some general object */
	in[6] = 0xff;
	in[7] = 0x01;
	made = create(0xa00, sizeof(in));
	assert_int_equal(made.what, SP_KEY_MADE); /* an alias of a key */
	assert_int_equal(made.pd, SP_PD_ANY);
}

static void queue_pairs_by_commands(void **state)
{
	memset(in, 0, sizeof(in));
	assert_int_equal(create(0x500, sizeof(in)).what, SP_QP_MADE);  /* CREATE_QP */
	assert_int_equal(create(0x710, sizeof(in)).what, SP_QP_MADE);  /* CREATE_DCT */
	assert_int_equal(create(0x400, sizeof(in)).what, SP_KEY_NONE); /* CREATE_CQ */
	assert_int_equal(create(0x500, 8).what, SP_KEY_NONE);
}

static void other_commands(void **state)
{
	struct sp_key_command out;

	create(0x200, sizeof(in));
	command.hdr.method_id = MLX5_IB_METHOD_DEVX_OBJ_QUERY;
	ENGINE->key_command(&command.hdr, &out);
	assert_int_equal(out.what, SP_KEY_NONE);
	command.hdr.object_id = 3;
	command.hdr.method_id = MLX5_IB_METHOD_DEVX_OBJ_CREATE;
	ENGINE->key_command(&command.hdr, &out);
	assert_int_equal(out.what, SP_KEY_NONE);
	create(0x200, sizeof(in));
	command.hdr.method_id = MLX5_IB_METHOD_DEVX_OBJ_DESTROY;
	command.hdr.num_attrs = 1;
	command.attrs[0] = (struct ib_uverbs_attr){ .attr_id = MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
						    .data = 7 };
	ENGINE->key_command(&command.hdr, &out);
	assert_int_equal(out.what, SP_KEY_GONE);
	assert_int_equal(out.object, 7);
}

/* ---- dma-bufs that libmlx5 registers in its own way --------------------------------------------- */

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);
__attribute__((visibility("default"))) struct ibv_mr *
mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		     int access, int mlx5_access)
{
	static struct ibv_mr mr;

	assert_int_equal(mlx5_access, 3);
	assert_int_equal(fd, 9);
	return &mr;
}

static void flags_of_a_buffer(void **state)
{
	struct {
		void *next, *end, *last;
		uint64_t flags;
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[9];
	} added = { .hdr = { .object_id = UVERBS_OBJECT_MR,
			     .method_id = UVERBS_METHOD_REG_DMABUF_MR },
		    .attrs = { { .attr_id = 1 << UVERBS_ID_NS_SHIFT, .len = 4, .data = 3 } } };
	const struct sp_dmabuf buf = { .fd = 9, .flags = 3 };
	uint32_t flags = 7;

	assert_int_equal(ENGINE->dmabuf_flags(NULL, &flags), 0);
	assert_int_equal(flags, 0);
	added.end = added.attrs;
	assert_int_equal(ENGINE->dmabuf_flags(&added, &flags), 0);
	assert_int_equal(flags, 0);
	added.end = added.attrs + 1;
	assert_int_equal(ENGINE->dmabuf_flags(&added, &flags), 0);
	assert_int_equal(flags, 3);
	added.end = added.attrs + 9; /* more than there is */
	assert_int_equal(ENGINE->dmabuf_flags(&added, &flags), -EINVAL);
	added.end = added.attrs + 2; /* one that is not known */
	assert_int_equal(ENGINE->dmabuf_flags(&added, &flags), -EINVAL);
	added.end = added.attrs + 1;
	added.hdr.method_id++;
	assert_int_equal(ENGINE->dmabuf_flags(&added, &flags), -EINVAL);
	assert_non_null(ENGINE->dmabuf_reg(NULL, &buf));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keys_of_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(keys_of_receives, setup, teardown),
		cmocka_unit_test_setup_teardown(keys_of_the_past_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(no_more_than_there_is_room_for, setup, teardown),
		cmocka_unit_test(keys_by_commands),
		cmocka_unit_test(queue_pairs_by_commands),
		cmocka_unit_test(other_commands),
		cmocka_unit_test(flags_of_a_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
