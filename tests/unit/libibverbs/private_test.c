/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is understood of memory that a provider registers by itself, also by calls that the installed
 * libibverbs does not have yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "libibverbs/hook.h"
#include "libibverbs/private.h"

__thread bool hook_inside;
__thread int hook_cancel_state;
atomic_bool hook_on;

static int answer, made, done;
static struct shift_region region;
static struct ibv_pd pd;
static struct ibv_mr mr;
static const struct ib_uverbs_ioctl_hdr *seen;

static int real(WORDS_DECLARE)
{
	return answer;
}

static struct ibv_comp_channel ours, theirs;
static struct ibv_comp_channel *channel_seen;
static bool async_is_real, async_seen;

static int real_create_cq(WORDS_DECLARE)
{
	channel_seen = ((struct ibv_cq_init_attr_ex *)a1)->channel;
	async_seen = async_is_real;
	return answer;
}

const struct real_private *real_private(void)
{
	static struct real_private functions;

	functions.query_mr = functions.reg_dm_mr = functions.reg_dmabuf_mr = functions.reg_mr_ex =
		functions.execute_ioctl = (void *)real;
	functions.create_cq_ex = functions.create_cq_ex2 = (void *)real_create_cq;
	return &functions;
}

void shift_mr_made(struct ibv_pd *of, struct ibv_mr *what, const struct shift_region *how)
{
	assert_ptr_equal(of, &pd);
	assert_ptr_equal(what, &mr);
	assert_true(hook_inside);
	region = *how;
	made++;
}

void shift_command_done(struct ibv_context *context, const struct ib_uverbs_ioctl_hdr *command)
{
	seen = command;
	done++;
}

void shift_async_real_begin(struct ibv_context *context)
{
	async_is_real = true;
}

void shift_async_real_end(struct ibv_context *context)
{
	async_is_real = false;
}

struct ibv_comp_channel *shift_channel_real(struct ibv_comp_channel *channel)
{
	return channel == &ours ? &theirs : channel;
}

void shift_cq_resized(struct ibv_cq *cq)
{
}

static int setup(void **state)
{
	atomic_store(&hook_on, true);
	answer = made = done = 0;
	seen = NULL;
	memset(&region, 0, sizeof(region));
	return 0;
}

/* struct ibv_mr_init_attr of rdma-core 59 to 65, which is not installed. */
struct init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

static int reg_mr_ex(const struct init_attr *attr)
{
	return ibv_cmd_reg_mr_ex((word)&pd, (word)&mr, (word)attr, 0, 0, 0, 0, 0, 0, 0);
}

static void memory_of_reg_mr_ex(void **state)
{
	struct init_attr attr = { .length = 4096, .access = 7, .comp_mask = 2, .addr = &region };

	assert_int_equal(reg_mr_ex(&attr), 0);
	assert_int_equal(made, 1);
	assert_int_equal(region.kind, SHIFT_REGION_MEMORY);
	assert_ptr_equal(region.addr, &region);
	assert_int_equal(region.iova, (uintptr_t)&region);
	assert_int_equal(region.length, 4096);
	assert_int_equal(region.access, 7);
	attr.comp_mask |= 1;
	attr.iova = 0x1000;
	assert_int_equal(reg_mr_ex(&attr), 0);
	assert_int_equal(region.iova, 0x1000);
}

static void buffer_of_reg_mr_ex(void **state)
{
	const struct init_attr attr = { .length = 8192,
					.access = 3,
					.comp_mask = 1 | 4 | 8,
					.iova = 0x2000,
					.fd = 9,
					.fd_offset = 512 };

	assert_int_equal(reg_mr_ex(&attr), 0);
	assert_int_equal(region.kind, SHIFT_REGION_DMABUF);
	assert_int_equal(region.fd, 9);
	assert_int_equal(region.offset, 512);
	assert_int_equal(region.iova, 0x2000);
	assert_int_equal(region.length, 8192);
}

static void buffer_of_reg_dmabuf_mr(void **state)
{
	assert_int_equal(
		ibv_cmd_reg_dmabuf_mr((word)&pd, 512, 8192, 0x2000, 9, 3, (word)&mr, 1, 0, 0), 0);
	assert_int_equal(region.kind, SHIFT_REGION_DMABUF);
	assert_int_equal(region.fd, 9);
	assert_int_equal(region.offset, 512);
	assert_int_equal(region.iova, 0x2000);
	assert_int_equal(region.access, 3);
}

/* A provider that makes a completion queue by itself: the kernel gets its own descriptors. */
static void completion_queues_of_providers(void **state)
{
	int (*const ways[])(WORDS_DECLARE) = { ibv_cmd_create_cq_ex, ibv_cmd_create_cq_ex2 };
	struct ibv_context context = { .num_comp_vectors = 1 };
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .channel = &ours };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		channel_seen = NULL;
		async_seen = false;
		answer = 0;
		assert_int_equal(ways[i]((word)&context, (word)&attr, 0, 0, 0, 0, 0, 0, 0, 0), 0);
		assert_ptr_equal(channel_seen, &theirs);
		assert_ptr_equal(attr.channel, &ours);
		assert_true(async_seen);
		assert_false(async_is_real);
	}
}

static void others(void **state)
{
	assert_int_equal(ibv_cmd_reg_dm_mr((word)&pd, 1, 64, 128, 7, (word)&mr, 0, 0, 0, 0), 0);
	assert_int_equal(region.kind, SHIFT_REGION_DEVICE);
	assert_int_equal(region.length, 128);
	assert_int_equal(ibv_cmd_query_mr((word)&pd, (word)&mr, 5, 0, 0, 0, 0, 0, 0, 0), 0);
	assert_int_equal(region.kind, SHIFT_REGION_IMPORTED);
}

/* Nothing was registered; or a verb that is hooked knows more of it. */
static void not_told(void **state)
{
	const struct init_attr attr = { .length = 4096, .comp_mask = 2 };

	answer = 12;
	assert_int_equal(reg_mr_ex(&attr), 12);
	answer = 0;
	hook_inside = true;
	assert_int_equal(reg_mr_ex(&attr), 0);
	hook_inside = false;
	atomic_store(&hook_on, false);
	assert_int_equal(reg_mr_ex(&attr), 0);
	assert_int_equal(made, 0);
}

static struct {
	uint64_t own[4];
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[2];
} command;

static void run(uint16_t object, uint16_t length)
{
	command.hdr.object_id = object;
	command.hdr.num_attrs = 2;
	command.hdr.length = length;
	assert_int_equal(execute_ioctl(0, (word)&command, 0, 0, 0, 0, 0, 0, 0, 0), 0);
}

static void commands_of_drivers(void **state)
{
	const uint16_t length = sizeof(command.hdr) + sizeof(command.attrs);

	run(UVERBS_OBJECT_MR, length);
	assert_int_equal(done, 0);
	run(UVERBS_OBJECT_QP, length);
	assert_int_equal(done, 0); /* a QP is made, by a verb */
	run(1 << UVERBS_ID_NS_SHIFT, length);
	assert_int_equal(done, 1);
	assert_ptr_equal(seen, &command.hdr);
	run(UVERBS_OBJECT_MR, length + 1); /* of a layout that is not known */
	assert_int_equal(done, 2);
	assert_null(seen);
}

/* ibv_qp_attach_comp_cntr, of a kernel that is newer than these headers. */
static void commands_that_set_a_queue_pair(void **state)
{
	command.hdr.method_id = UVERBS_METHOD_QP_DESTROY + 1;
	run(UVERBS_OBJECT_QP, sizeof(command.hdr) + sizeof(command.attrs));
	assert_int_equal(done, 1);
	assert_ptr_equal(seen, &command.hdr);
	command.hdr.method_id = UVERBS_METHOD_QP_DESTROY;
	run(UVERBS_OBJECT_QP, sizeof(command.hdr) + sizeof(command.attrs));
	assert_int_equal(done, 1);
	command.hdr.method_id = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(memory_of_reg_mr_ex, setup),
		cmocka_unit_test_setup(buffer_of_reg_mr_ex, setup),
		cmocka_unit_test_setup(buffer_of_reg_dmabuf_mr, setup),
		cmocka_unit_test_setup(completion_queues_of_providers, setup),
		cmocka_unit_test_setup(others, setup),
		cmocka_unit_test_setup(not_told, setup),
		cmocka_unit_test_setup(commands_of_drivers, setup),
		cmocka_unit_test_setup(commands_that_set_a_queue_pair, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
