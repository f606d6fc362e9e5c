/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The file in which processes of SHIFT_ATOMIC_GROUP agree: they come, are killed, leave queue pairs to a child of
 * theirs; the file is removed, or is none. What stands in it: tests/unit/core/home_test.c.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "shiftlib/conn/atomics/home_board.h"
#include "shiftlib/core/home.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"

static char dir[] = "/tmp/shift-board-XXXXXX", file[64];
static struct sh_nic nics[3] = { { .name = "mlx5_0" }, { .name = "mlx5_1" }, { .name = "mlx5_2" } };
static struct sh_ctx ctx = { .nic = &nics[0],
			     .path = { &nics[0], &nics[1], &nics[2] },
			     .n_paths = 3 };
/* Another process may have its paths in another order. */
static struct sh_ctx crossed = { .nic = &nics[0],
				 .path = { &nics[0], &nics[2], &nics[1] },
				 .n_paths = 3 };

/* One that has joined, with a member whose peer has answered the bar and wants to run atomics on that path. */
struct process {
	struct sh_home_board *board;
	const struct sh_ctx *ctx;
	struct sc_home_member member, *members[1];
	struct sc_home_group group;
	bool busy;
};

static void process_make(struct process *p, const struct sh_ctx *own)
{
	*p = (struct process){ .ctx = own };
	p->members[0] = &p->member;
	p->group = (struct sc_home_group){ .members = p->members };
}

static void wants(struct process *p, uint8_t path)
{
	p->group.n = 1;
	p->member = (struct sc_home_member){
		.bar_no = 1,
		.heard = true,
		.user = true,
		.wants = true,
		.path = path,
		.ok = (uint8_t)(1u << path),
		.steady = (uint8_t)(1u << path),
	};
}

static bool step(struct process *p)
{
	return sh_home_board_step(&p->board, p->ctx, &p->group, &p->busy);
}

static bool enter(struct process *p)
{
	return sh_home_board_enter(&p->board, p->ctx);
}

static int set_up(void **state)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	sh.config.run_dir = dir;
	sh.config.atomic_group = "words";
	snprintf(file, sizeof(file), "%s/words.mlx5_0.atomics", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)unlink(file);
	return rmdir(dir);
}

static void leave(struct process *p)
{
	sh_home_board_abandon(p->board);
}

/* ---- what one may, while another is where ------------------------------------------------------- */

static void one_is_away(void **state)
{
	struct process a, b;

	process_make(&a, &ctx);
	process_make(&b, &crossed);
	assert_true(enter(&a) && enter(&b));
	assert_int_equal(sh_home_board_processes(a.board), 2);

	wants(&a, 1);
	assert_true(step(&a));
	assert_false(a.member.granted); /* b may run atomics on the default NIC */
	assert_int_equal(a.group.home, 1);
	assert_true(step(&b)); /* it has no member any more */
	assert_int_equal(b.group.home, 2);
	assert_true(b.busy);
	assert_true(step(&a));
	assert_true(a.member.granted);
	assert_false(enter(&b));

	wants(&b, 2); /* the same NIC */
	assert_true(step(&b));
	assert_true(b.member.granted);
	leave(&a);
	leave(&b);
}

static void nobody_is_on_that_path(void **state)
{
	struct sh_ctx few = { .nic = &nics[0], .path = { &nics[0], &nics[1] }, .n_paths = 2 };
	struct process a, b;

	process_make(&a, &ctx);
	process_make(&b, &few);
	wants(&a, 2);
	assert_true(enter(&a) && enter(&b));
	assert_true(step(&a) && step(&b) && step(&a));
	assert_true(a.member.granted);
	assert_int_equal(b.group.home, SC_MAX_PATHS);
	assert_false(enter(&b));
	leave(&a);
	leave(&b);
}

/* ---- processes end ------------------------------------------------------------------------------ */

/* In the child: it has joined, and runs atomics on the default NIC. */
static void child_joins(int said)
{
	struct process p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	process_make(&p, &ctx);
	if (!enter(&p) || write(said, "j", 1) != 1)
		_exit(1);
}

static void await_word(int from)
{
	char word;

	assert_int_equal(read(from, &word, 1), 1);
}

/* Until it is dead, but nobody has waited for it: its files are closed. */
static void kill_and_see(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void killed(void **state)
{
	struct process own;
	int line[2];
	pid_t pid;

	process_make(&own, &ctx);
	assert_true(enter(&own));
	assert_int_equal(pipe(line), 0);
	pid = fork();
	if (!pid) {
		child_joins(line[1]);
		pause();
		_exit(1);
	}
	await_word(line[0]);
	wants(&own, 1);
	assert_true(step(&own));
	assert_false(own.member.granted);
	kill_and_see(pid);
	assert_true(step(&own));
	assert_true(own.member.granted);
	assert_int_equal(sh_home_board_processes(own.board), 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	leave(&own);
	close(line[0]);
	close(line[1]);
}

/* Its queue pairs are open as long as a child of it has them, and so has its place. */
static void killed_but_forked(void **state)
{
	int line[2], hold[2];
	struct process own;
	pid_t pid, heir;

	process_make(&own, &ctx);
	assert_true(enter(&own));
	assert_int_equal(pipe(line), 0);
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		char word;

		child_joins(line[1]);
		heir = fork();
		if (!heir) {
			close(hold[1]);
			_exit((int)read(hold[0], &word, 1)); /* until our process closes it */
		}
		if (write(line[1], &heir, sizeof(heir)) != sizeof(heir))
			_exit(1);
		pause();
		_exit(1);
	}
	await_word(line[0]);
	assert_int_equal(read(line[0], &heir, sizeof(heir)), sizeof(heir));
	kill_and_see(pid);
	wants(&own, 1);
	assert_true(step(&own));
	assert_false(own.member.granted);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(step(&own));
	assert_false(own.member.granted);
	kill(heir, SIGKILL);
	/* Nobody here can wait for it: its end is seen by what it held. */
	while (!own.member.granted)
		assert_true(step(&own));
	leave(&own);
	for (int i = 0; i < 2; i++) {
		close(line[i]);
		close(hold[i]);
	}
}

/* ---- the file ----------------------------------------------------------------------------------- */

static void removed(void **state)
{
	struct process a, b;

	process_make(&a, &ctx);
	process_make(&b, &ctx);
	assert_true(enter(&a));
	assert_int_equal(unlink(file), 0);
	assert_true(enter(&b));
	assert_int_equal(sh_home_board_processes(b.board), 1);
	assert_true(step(&a));
	assert_int_equal(sh_home_board_processes(b.board), 2);
	leave(&a);
	leave(&b);
}

static void write_file(size_t length, mode_t mode)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), mode), 0);
	for (size_t i = 0; i < length; i++)
		fputc('x', f);
	fclose(f);
}

static void none_of_ours(void **state)
{
	struct process p;

	process_make(&p, &ctx);
	write_file(100, 0600);
	assert_false(enter(&p));
	assert_null(p.board);
	assert_false(step(&p));
	assert_true(p.busy);
	write_file(0, 0660);
	assert_false(enter(&p));
	write_file(0, 0600); /* of one that was killed while it made it */
	assert_true(enter(&p));
	leave(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_is_away, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nobody_is_on_that_path, set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed_but_forked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(removed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(none_of_ours, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
