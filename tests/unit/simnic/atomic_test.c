/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The scope of atomics: additions to one word over one NIC, over two of them, and by two processes over one
 * NIC. Each queue pair is connected to itself.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simnic/device/testing.h"
#include "tests/lib/fork.h"
#include "tests/lib/random.h"
#include "tests/lib/simnic_ring.h"

#define ADDS  2000
#define AHEAD 8
#define STOPS 100
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct user {
	struct sn_dev *dev;
	struct ring_cq cq;
	struct ring_qp qp;
	uint32_t key;
};

static struct sn_fabric *fabric;
static uint64_t *words; /* shared with a child: the one that all add to, then results */
static char name[32];

static void user_make(struct user *u, uint32_t nic)
{
	const struct ring_qp_options options = {
		.type = IBV_QPT_RC, .sig_all = true, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7
	};

	assert_int_equal(0, sn_dev_open(nic, &u->dev));
	ring_cq_make(u->dev, &u->cq, 64, false);
	ring_qp_make(u->dev, &u->qp, &u->cq, &u->cq, &options);
	assert_int_equal(0, sn_mr_reg(u->dev, 1, (uint64_t)words, 4096, (uint64_t)words, ACCESS,
				      &u->key, &u->key));
	ring_qp_connect(&u->qp, fabric->nic[0][nic].gid, u->qp.qpn, &options);
}

static void user_free(struct user *u)
{
	ring_qp_free(&u->qp);
	ring_cq_free(&u->cq);
	sn_mr_dereg(u->dev, u->key);
	sn_dev_close(u->dev);
}

static void post(struct user *u, uint8_t opcode, uint32_t at, uint64_t add, uint64_t compare)
{
	struct ring_wr wr = { .opcode = opcode,
			      .rkey = u->key,
			      .raddr = (uint64_t)words,
			      .swap_add = add,
			      .compare = compare,
			      .n_sge = 1,
			      .sge = { { &words[at], 8, u->key } } };

	ring_post(&u->qp, &wr);
}

static void take(struct user *u)
{
	struct ring_wc wc;

	assert_true(ring_wait(&u->cq, &wc));
	assert_int_equal(MLX5_CQE_REQ, wc.opcode);
}

/* Each adds ADDS times one, some ahead; afterwards each READs, which waits for what its NIC writes. */
static uint64_t add_all(struct user *users, uint32_t n)
{
	words[0] = 0;
	for (uint32_t i = 0; i < ADDS + AHEAD; i++)
		for (uint32_t k = 0; k < n; k++) {
			if (i < ADDS)
				post(&users[k], MLX5_OPCODE_ATOMIC_FA, 1 + k, 1, 0);
			if (i >= AHEAD)
				take(&users[k]);
		}
	for (uint32_t k = 0; k < n; k++) {
		post(&users[k], MLX5_OPCODE_RDMA_READ, 1 + k, 0, 0);
		take(&users[k]);
	}
	return __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
}

static uint64_t add_over(uint32_t nic_a, uint32_t nic_b)
{
	struct user users[2];
	uint64_t sum;

	user_make(&users[0], nic_a);
	user_make(&users[1], nic_b);
	sum = add_all(users, 2);
	user_free(&users[0]);
	user_free(&users[1]);
	return sum;
}

static void set_scope(bool glob)
{
	atomic_store(&fabric->nic[0][0].atomic.glob, glob);
	atomic_store(&fabric->nic[0][1].atomic.glob, glob);
}

static void one_nic_adds_up(void **state)
{
	set_scope(false);
	assert_int_equal(2 * ADDS, add_over(0, 0));
}

static void two_nics_lose_some(void **state)
{
	uint64_t sum;

	set_scope(false);
	sum = add_over(0, 1);
	print_message("%u additions over two NICs: %u are there\n", 2 * ADDS, (unsigned)sum);
	assert_in_range(sum, ADDS / 2, 2 * ADDS - 1);
}

static void two_nics_add_up_with_global_scope(void **state)
{
	set_scope(true);
	assert_int_equal(2 * ADDS, add_over(0, 1));
}

/* A CAS that fails writes nothing; what follows it on its queue pair finds what it wrote. */
static void cas_and_order(void **state)
{
	struct user u;

	set_scope(false);
	user_make(&u, 1);
	words[0] = 5;
	post(&u, MLX5_OPCODE_ATOMIC_CS, 1, 9, 4);
	post(&u, MLX5_OPCODE_ATOMIC_CS, 2, 7, 5);
	post(&u, MLX5_OPCODE_RDMA_READ, 3, 0, 0);
	for (int i = 0; i < 3; i++)
		take(&u);
	assert_int_equal(5, words[1]);
	assert_int_equal(5, words[2]);
	assert_int_equal(7, words[3]);
	user_free(&u);
}

/* In a process of its own: the other one must be there, and add meanwhile. */
static int child_adds(_Atomic uint32_t *ready)
{
	struct user u;

	sn_device_forget_after_fork();
	if (sn_device_start(fabric, 0))
		return 1;
	user_make(&u, 0);
	atomic_fetch_add(ready, 1);
	while (atomic_load(ready) < 2)
		usleep(100);
	for (uint32_t i = 0; i < ADDS; i++) {
		post(&u, MLX5_OPCODE_ATOMIC_FA, 8, 1, 0);
		take(&u);
	}
	user_free(&u);
	return 0;
}

/* Stopped and continued at any moment, by turns. */
static void stop_at_random(const pid_t pid[2])
{
	uint64_t rng = random_seed("stops");

	for (uint32_t i = 0; i < STOPS; i++) {
		usleep(random_below(&rng, 2000));
		kill(pid[i % 2], SIGSTOP);
		usleep(3000);
		kill(pid[i % 2], SIGCONT);
	}
}

static void two_processes_add(bool stop)
{
	_Atomic uint32_t *ready = (_Atomic uint32_t *)&words[16];
	pid_t pid[2];
	int status;

	set_scope(false);
	words[0] = 0;
	atomic_store(ready, 0);
	for (int i = 0; i < 2; i++) {
		pid[i] = test_fork();
		if (!pid[i])
			_exit(child_adds(ready));
	}
	if (stop)
		stop_at_random(pid);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pid[i], waitpid(pid[i], &status, 0));
		assert_int_equal(0, status);
	}
	assert_int_equal(2 * ADDS, words[0]);
}

static void two_processes_on_one_nic_add_up(void **state)
{
	two_processes_add(false);
}

/* A NIC does not stop with a program: nobody waits for it, and what it was at is not written over what came since. */
static void who_is_stopped_undoes_nothing(void **state)
{
	two_processes_add(true);
}

static int fabric_up(void **state)
{
	const struct sn_fabric_config config = {
		.n_hosts = 1, .n_nics = 2, .seed = 1, .link_layer = SN_LINK_ETH
	};

	snprintf(name, sizeof(name), "unit-atomic-%d", getpid());
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED || sn_fabric_create(name, &config))
		return -1;
	return sn_fabric_attach(name, &fabric);
}

static int device_up(void **state)
{
	return sn_device_start(fabric, 0);
}

static int fabric_down(void **state)
{
	return sn_fabric_destroy(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_stopped_undoes_nothing),
		cmocka_unit_test(two_processes_on_one_nic_add_up), /* forks: before all threads */
		cmocka_unit_test_setup(one_nic_adds_up, device_up),
		cmocka_unit_test(two_nics_lose_some),
		cmocka_unit_test(two_nics_add_up_with_global_scope),
		cmocka_unit_test(cas_and_order),
	};

	return cmocka_run_group_tests(tests, fabric_up, fabric_down);
}
