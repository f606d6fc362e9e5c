/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A region that gets another place has the addresses of that place, whatever it was registered with: ibv_rereg_mr()
 * takes none, and the providers pass the place itself to the kernel (hca_va). Seen by who answers what a word holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shiftlib/base/table.h"
#include "shiftlib/conn/atomics/words.h"
#include "shiftlib/conn/conns.h"
#include "shiftlib/conn/messages.h"
#include "shiftlib/conn/part.h"
#include "shiftlib/conn/qp.h"
#include "shiftlib/control/wire.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/object/mr.h"
#include "shiftlib/object/object.h"
#include "shiftlib/peer/peer.h"
#include "shiftlib/replica/context.h"
#include "shiftlib/replica/memory.h"
#include "shiftlib/replica/young.h"

enum { EPOCH = 5, RKEY = 0x1100, PAGE = 4096, PLACE = 3 };
#define IOVA  UINT64_C(0x7f0000000000)
#define RIGHT (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct shift_real verbs;
static struct ibv_pd real_pd;
static struct ibv_mr real_mr;
static struct sh_ctx ctx;
static struct sh_pd pd;
static struct sh_qp qp;
static struct sh_wire_word answer;
/* The region lies in the first two pages, then in the second and third. */
static _Alignas(PAGE) uint64_t memory[3][PAGE / sizeof(uint64_t)];

void __wrap_sh_messages_send_word(struct sh_qp *to, const struct sh_wire_word *word);
void __wrap_sh_messages_send_word(struct sh_qp *to, const struct sh_wire_word *word)
{
	assert_ptr_equal(to, &qp);
	answer = *word;
}

static struct ibv_mr *made(struct ibv_pd *in, void *addr, size_t length)
{
	real_mr = (struct ibv_mr){ .pd = in, .addr = addr, .length = length, .rkey = RKEY };
	return &real_mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *in, void *addr, size_t length, int access)
{
	(void)access;
	return made(in, addr, length);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *in, void *addr, size_t length, uint64_t iova,
				   unsigned int access)
{
	(void)iova;
	(void)access;
	return made(in, addr, length);
}

static int rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *in, void *addr, size_t length,
		    int access)
{
	(void)in;
	(void)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

/* A context without backups, so that nothing but the record is made. */
static int setup(void **state)
{
	(void)state;
	verbs = (struct shift_real){ .reg_mr = reg_mr,
				     .reg_mr_iova2 = reg_mr_iova2,
				     .rereg_mr = rereg_mr };
	sh.real = &verbs;
	sh_objects_module.reset();
	sh_conns_module.reset();
	sh_peers_module.reset();
	sh_young_module.reset();
	ctx = (struct sh_ctx){ .n_paths = 1 };
	pd = (struct sh_pd){ .ctx = &ctx };
	list_init(&pd.mrs);
	assert_int_equal(sh_table_put(&sh_objects.by_pd, &real_pd, &pd), 0);
	qp = (struct sh_qp){ .pd = &pd };
	qp.app.attr.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
	qp.core.epoch = EPOCH + 1;
	for (uint64_t i = 0; i < 3; i++)
		for (uint64_t k = 0; k < PAGE / sizeof(uint64_t); k++)
			memory[i][k] = i * PAGE + k;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sh_lock();
	sh_mr_forget(list_entry(pd.mrs.next, struct sh_mr, link));
	sh_unlock();
	free(sh_objects.by_mr.slots); /* a process keeps them to its end */
	free(sh_objects.by_pd.slots);
	return 0;
}

static uint32_t asked(uint64_t addr)
{
	const struct sh_wire_record record = {
		.type = SH_WIRE_WORD,
		.word = { .kind = SH_WIRE_WORD_ASK, .carrier = EPOCH, .addr = addr, .rkey = RKEY },
	};

	answer = (struct sh_wire_word){ 0 };
	(void)sh_words_part.news.message(&qp, &record);
	return answer.kind;
}

static void told(uint64_t addr, uint64_t value)
{
	assert_int_equal(asked(addr), SH_WIRE_WORD_TOLD);
	assert_true(answer.value == value);
}

static void refused(uint64_t addr)
{
	assert_int_equal(asked(addr), SH_WIRE_WORD_REFUSED);
}

static void registered_by(bool iova, int access)
{
	void *addr = memory[0];

	assert_ptr_equal(shift_reg_mr(&real_pd, addr, 2 * PAGE, iova ? IOVA : (uintptr_t)addr,
				      (unsigned int)access, iova),
			 &real_mr);
}

static void registered_anew(int flags, int access)
{
	assert_int_equal(shift_rereg_mr(&real_mr, flags, &real_pd, memory[1], 2 * PAGE, access), 0);
}

static void it_has_the_new_addresses(void)
{
	told((uintptr_t)&memory[1][PLACE], PAGE + PLACE);
	told((uintptr_t)&memory[2][PLACE], 2 * PAGE + PLACE);
	refused((uintptr_t)&memory[0][PLACE]);
	refused(IOVA + PLACE * sizeof(uint64_t));
}

static void by_its_addresses(void **state)
{
	(void)state;
	registered_by(false, RIGHT);
	told((uintptr_t)&memory[0][PLACE], PLACE);
	refused((uintptr_t)&memory[2][PLACE]);
	registered_anew(IBV_REREG_MR_CHANGE_TRANSLATION, 0);
	it_has_the_new_addresses();
}

static void by_addresses_of_its_own(void **state)
{
	(void)state;
	registered_by(true, RIGHT);
	told(IOVA + PLACE * sizeof(uint64_t), PLACE);
	refused((uintptr_t)&memory[0][PLACE]);
	registered_anew(IBV_REREG_MR_CHANGE_TRANSLATION, 0);
	it_has_the_new_addresses();
}

/* Its place is not asked about, and what is passed as one is none. */
static void in_its_rights_alone(void **state)
{
	(void)state;
	registered_by(true, IBV_ACCESS_LOCAL_WRITE);
	refused(IOVA + PLACE * sizeof(uint64_t));
	registered_anew(IBV_REREG_MR_CHANGE_ACCESS, RIGHT);
	told(IOVA + PLACE * sizeof(uint64_t), PLACE);
	refused((uintptr_t)&memory[1][PLACE]);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(by_its_addresses),
		CASE(by_addresses_of_its_own),
		CASE(in_its_rights_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
