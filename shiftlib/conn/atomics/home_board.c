/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The file of a board. One process at a time has the lock of its first byte; each has the lock
 * of another one for as long as it sits there. They are locks of open files, so that they end
 * with the process, however it dies: of the second kind the child of a fork has its part, as it
 * has of the queue pairs.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/run_dir.h"
#include "shiftlib/base/util.h"
#include "shiftlib/conn/atomics/home.h"
#include "shiftlib/conn/atomics/home_board.h"
#include "shiftlib/core/home_board.h"
#include "shiftlib/loop/loop.h"
#include "shiftlib/nic/nic.h"
#include "shiftlib/replica/context.h"

#define BOARD_VERSION	  1
#define BOARD_TRIES	  50
#define BOARD_TRY_NS	  20000
#define BOARD_MARGIN_NS	  SH_NS_PER_S /* files of a process are closed one after the other */
#define BOARD_PATIENCE_NS SH_NS_PER_S

struct board_owner {
	int32_t pid;
	uint32_t zero;
	uint64_t start;	 /* field 22 of /proc/PID/stat: another may get the number */
	uint64_t pid_ns; /* where that is its number */
};

struct board_file {
	uint32_t version;
	uint32_t bell; /* written by write(2), which inotify tells */
	char nic[SC_HOME_NICS][64];
	struct board_owner owner[SC_HOME_PROCESSES];
	struct sc_home_board board;
};

struct board_wait {
	uint64_t since; /* 0: it does not */
	bool said;
};

struct sh_home_board {
	char path[RUN_DIR_MAX + 160];
	int fd, presence;
	struct board_file *file;
	struct sc_home_seat seat;
	uint64_t free_since[SC_HOME_PROCESSES];
	/* away: waits for another process' atomics; held: for the lock */
	struct board_wait away, held;
};

/*
 * The inotify of all boards: changes, and removal. Never closed, as an event that was read may
 * name it.
 */
static struct {
	int fd; /* -1: not made, or deaf */
	struct sh_handler handler;
} ears = { .fd = -1 };

/* ---- locks ----------------------------------------------------------------------------------- */

static bool board_lock(int fd, short type, uint32_t byte)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

static bool board_is_locked(int fd, uint32_t byte)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
	};

	return fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/*
 * Takes the board's lock, which is held for microseconds, unless its holder is stopped. False:
 * not now.
 */
static bool board_take(const struct sh_home_board *b)
{
	static const struct timespec pause = { .tv_nsec = BOARD_TRY_NS };
	int i;

	for (i = 0; i < BOARD_TRIES; i++) {
		if (board_lock(b->fd, F_WRLCK, 0))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static void board_give(const struct sh_home_board *b)
{
	(void)board_lock(b->fd, F_UNLCK, 0);
}

static uint32_t board_presence(uint32_t place)
{
	return 1 + place;
}

/* ---- who is gone ----------------------------------------------------------------------------- */

static uint64_t board_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* 0: it cannot be read. */
static uint64_t board_start_of(int32_t pid)
{
	char path[32], text[512] = "", *at;
	unsigned long long start = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	at = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	fclose(f);
	/* fields 3 to 21 stand behind the name, then the start */
	if (!at || sscanf(at + 1,
			  " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %llu",
			  &start) != 1)
		return 0;
	return start;
}

/* All its threads, and so all its files, but those that it has in common with others. */
static bool board_process_gone(const struct board_owner *owner)
{
	int fd = (int)syscall(SYS_pidfd_open, owner->pid, 0);
	struct pollfd ended = { .fd = fd, .events = POLLIN };
	bool gone;

	if (fd < 0) /* before Linux 5.3: one that nobody has waited for is still there */
		return kill(owner->pid, 0) && errno == ESRCH;
	gone = poll(&ended, 1, 0) > 0 || board_start_of(owner->pid) != owner->start;
	close(fd);
	return gone;
}

static bool board_gone(struct sh_home_board *b, uint32_t place, uint64_t now)
{
	const struct board_owner *owner = &b->file->owner[place];

	if (board_is_locked(b->fd, board_presence(place))) {
		b->free_since[place] = 0;
		return false;
	}
	if (owner->pid_ns == board_pid_ns())
		return board_process_gone(owner);
	if (!b->free_since[place])
		b->free_since[place] = now;
	return now - b->free_since[place] >= BOARD_MARGIN_NS;
}

static void board_clear_dead(struct sh_home_board *b)
{
	struct sc_home_board *board = &b->file->board;
	uint64_t now = sh_now_ns();
	uint32_t i;

	for (i = 0; i < SC_HOME_PROCESSES; i++) {
		if (i == b->seat.me || !board->process[i].taken || !board_gone(b, i, now))
			continue;
		sh_log(SH_LOG_INFO, "process %d of SHIFT_ATOMIC_GROUP=%s has ended",
		       b->file->owner[i].pid, sh.config.atomic_group);
		sc_home_board_clear(board, i);
	}
}

/* ---- joining --------------------------------------------------------------------------------- */

static bool board_sit_at(struct sh_home_board *b, uint32_t place)
{
	struct sc_home_process *process = &b->file->board.process[place];

	if (process->taken && !board_gone(b, place, sh_now_ns()))
		return false;
	if (!board_lock(b->presence, F_WRLCK, board_presence(place)))
		return false;
	sc_home_board_clear(&b->file->board, place);
	b->file->owner[place] = (struct board_owner){
		.pid = getpid(),
		.start = board_start_of(getpid()),
		.pid_ns = board_pid_ns(),
	};
	*process =
		(struct sc_home_process){ .ready = ~0u, .can = ~0u, .taken = 1, .takes_part = 1 };
	b->seat.me = place;
	return true;
}

static int board_sit_down(struct sh_home_board *b)
{
	uint32_t place;

	b->seat.board = &b->file->board;
	b->seat.me = SC_HOME_PROCESSES;
	for (place = 0; place < SC_HOME_PROCESSES; place++)
		if (board_sit_at(b, place))
			return 0;
	return -EUSERS;
}

/* Locked: nobody else makes it meanwhile. All zero is an empty board, so one may die in between. */
static int board_map(struct sh_home_board *b)
{
	struct stat st;
	int ret;

	if (fstat(b->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
		return -EPERM;
	ret = st.st_size ? 0 : posix_fallocate(b->fd, 0, sizeof(struct board_file));
	if (ret)
		return -ret;
	if (st.st_size && (size_t)st.st_size != sizeof(struct board_file))
		return -EPROTO;
	b->file =
		mmap(NULL, sizeof(struct board_file), PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (b->file == MAP_FAILED) {
		b->file = NULL;
		return -errno;
	}
	if (b->file->version && b->file->version != BOARD_VERSION)
		return -EPROTO;
	b->file->version = BOARD_VERSION;
	return 0;
}

static int board_open(struct sh_home_board *b)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, ret;
	struct stat one, two;

	b->fd = open(b->path, flags, 0600);
	b->presence = open(b->path, flags, 0600);
	sh_aside((int *[]){ &b->fd, &b->presence }, 2);
	if (b->fd < 0 || b->presence < 0 || fstat(b->fd, &one) || fstat(b->presence, &two))
		return -errno;
	if (one.st_ino != two.st_ino || one.st_dev != two.st_dev || !board_take(b))
		return -EAGAIN;
	ret = board_map(b);
	if (!ret)
		ret = board_sit_down(b);
	board_give(b);
	return ret;
}

static void board_readable(void *arg) SH_LOCKED
{
	char events[4096];

	while (read(ears.fd, events, sizeof(events)) > 0)
		;
	sh_home_due();
}

/*
 * Asks to be told of changes of the board. Without inotify, boards are looked at from time to
 * time.
 */
static void board_listen(const struct sh_home_board *b)
{
	if (ears.fd < 0) {
		ears.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		sh_aside_one(&ears.fd);
		ears.handler.readable = board_readable;
		if (ears.fd >= 0 && sh_loop_add(ears.fd, &ears.handler)) {
			close(ears.fd);
			ears.fd = -1;
		}
	}
	if (ears.fd >= 0 && inotify_add_watch(ears.fd, b->path, IN_MODIFY | IN_ATTRIB) < 0)
		sh_log(SH_LOG_WARN, "%s: inotify: %s: changes there are seen late", b->path,
		       strerror(errno));
}

static void board_close(struct sh_home_board *b)
{
	if (b->file)
		munmap(b->file, sizeof(*b->file));
	if (b->fd >= 0)
		close(b->fd);
}

static void board_free(struct sh_home_board *b)
{
	board_close(b);
	if (b->presence >= 0)
		close(b->presence);
	free(b);
}

static int board_path(struct sh_home_board *b, const char *nic, const char **why)
{
	char dir[RUN_DIR_MAX];
	int ret = run_dir_path(sh.config.run_dir, geteuid(), dir);

	/* a board that others of the group do not find is worse than none */
	if (!ret && !run_dir_is_sure(sh.config.run_dir, geteuid())) {
		*why = "XDG_RUNTIME_DIR cannot be used here: set SHIFT_RUN_DIR for all of the "
		       "group";
		ret = -ENOENT;
	}
	if (!ret)
		ret = run_dir_make(dir, geteuid(), why);
	snprintf(b->path, sizeof(b->path), "%s/%s.%s.atomics", dir, sh.config.atomic_group, nic);
	return ret;
}

static const char *board_why(int ret)
{
	switch (-ret) {
	case EPROTO: return "it was made by another version of SHIFT";
	case EUSERS: return "there are too many processes";
	case EPERM: return "it is not this user's alone";
	default: return strerror(-ret);
	}
}

static void board_say_refused(const struct sh_home_board *b, const char *nic, int ret,
			      const char *why)
{
	static int said;

	if (ret != said)
		sh_log(SH_LOG_ERROR,
		       "SHIFT_ATOMIC_GROUP=%s cannot be joined (%s: %s): connections of %s take no "
		       "atomics until it can",
		       sh.config.atomic_group, b->path, why ? why : board_why(ret), nic);
	said = ret;
}

static struct sh_home_board *board_join(const char *nic) SH_LOCKED
{
	struct sh_home_board *b = calloc(1, sizeof(*b));
	const char *why = NULL;
	int ret;

	if (!b)
		return NULL;
	b->fd = b->presence = -1;
	ret = board_path(b, nic, &why);
	if (!ret)
		ret = board_open(b);
	if (ret) {
		board_say_refused(b, nic, ret, why);
		board_free(b);
		return NULL;
	}
	board_listen(b);
	sh_log(SH_LOG_INFO,
	       "atomics of connections of %s run on one NIC with those of all processes of "
	       "SHIFT_ATOMIC_GROUP=%s, %u now (%s)",
	       nic, sh.config.atomic_group, sh_home_board_processes(b), b->path);
	return b;
}

/* Others who come would agree on another one. */
static bool board_removed(const struct sh_home_board *b)
{
	struct stat st;

	return !fstat(b->fd, &st) && !st.st_nlink;
}

static struct sh_home_board *board_of(struct sh_home_board **at, const struct sh_ctx *ctx) SH_LOCKED
{
	if (*at && board_removed(*at)) {
		sh_log(SH_LOG_WARN,
		       "%s was removed: atomics of SHIFT_ATOMIC_GROUP=%s may have run on two NICs "
		       "since; it is made anew",
		       (*at)->path, sh.config.atomic_group);
		board_free(*at);
		*at = NULL;
	}
	if (!*at && ctx)
		*at = board_join(ctx->nic->name);
	return *at;
}

/* ---- the NICs -------------------------------------------------------------------------------- */

static int board_number(struct board_file *file, const char *name)
{
	int i;

	for (i = 0; i < SC_HOME_NICS; i++) {
		if (!file->nic[i][0])
			snprintf(file->nic[i], sizeof(file->nic[i]), "%s", name);
		if (!strcmp(file->nic[i], name))
			return i;
	}
	return -1;
}

/* Locked. The first to come names the default NIC, number 0. */
static void board_number_paths(struct sh_home_board *b, const struct sh_ctx *ctx)
{
	uint32_t path;
	int number;

	for (path = 0; ctx && path < ctx->n_paths; path++) {
		number = board_number(b->file, ctx->path[path]->name);
		if (number < 0)
			break;
		b->seat.nic[path] = (uint8_t)number;
		b->seat.n_paths = path + 1 > b->seat.n_paths ? path + 1 : b->seat.n_paths;
	}
}

/* NULL: there is none. Else it is taken, and up to date. */
static struct sh_home_board *board_begin(struct sh_home_board **at,
					 const struct sh_ctx *ctx) SH_LOCKED
{
	struct sh_home_board *b = board_of(at, ctx);

	if (!b || !board_take(b))
		return NULL;
	board_number_paths(b, ctx);
	board_clear_dead(b);
	return b;
}

/* ---- what home.c asks ------------------------------------------------------------------------ */

bool sh_home_board_enter(struct sh_home_board **at, const struct sh_ctx *ctx)
{
	struct sh_home_board *b = board_begin(at, ctx);
	bool may;

	if (!b)
		return false;
	may = sc_home_board_enter(&b->seat);
	board_give(b);
	return may;
}

static void board_ring(const struct sh_home_board *b)
{
	uint32_t word = b->file->bell + 1;

	if (pwrite(b->fd, &word, sizeof(word), offsetof(struct board_file, bell)) < 0)
		sh_log(SH_LOG_DEBUG, "%s: %s", b->path, strerror(errno));
}

/* True, once: it has waited for so long that it is to be said. */
static bool board_waits(struct board_wait *wait)
{
	uint64_t now = sh_now_ns();

	if (!wait->since)
		wait->since = now;
	if (wait->said || now - wait->since < BOARD_PATIENCE_NS)
		return false;
	wait->said = true;
	return true;
}

/*
 * Logs that the lock is held too long. The kernel does not tell by whom: a process that was
 * stopped, as the lock is held for a few calls only.
 */
static void board_say_held(struct sh_home_board *b)
{
	if (board_waits(&b->held))
		sh_log(SH_LOG_WARN,
		       "atomics of SHIFT_ATOMIC_GROUP=%s wait for a process that keeps %s locked: "
		       "is one "
		       "stopped?",
		       sh.config.atomic_group, b->path);
}

static void board_say_away(struct sh_home_board *b, bool busy)
{
	int away = busy ? sc_home_board_away(&b->seat) : -1;
	int other = busy && away < 0 ? sc_home_board_silent(&b->seat) : away;

	if (other < 0)
		b->away = (struct board_wait){ 0 };
	else if (!board_waits(&b->away))
		return;
	else if (away >= 0)
		sh_log(SH_LOG_WARN,
		       "atomics of SHIFT_ATOMIC_GROUP=%s wait for process %d, which may still run "
		       "some on another NIC than %s",
		       sh.config.atomic_group, b->file->owner[other].pid,
		       b->file->nic[b->file->board.home]);
	else
		sh_log(SH_LOG_WARN,
		       "atomics of SHIFT_ATOMIC_GROUP=%s stay on %s for process %d, which has a "
		       "connection that takes no part, or has not said otherwise",
		       sh.config.atomic_group, b->file->nic[b->file->board.home],
		       b->file->owner[other].pid);
}

bool sh_home_board_step(struct sh_home_board **at, const struct sh_ctx *ctx,
			struct sc_home_group *group, bool *busy)
{
	struct sh_home_board *b = board_begin(at, ctx);
	bool changed;

	*busy = true;
	if (!b) {
		if (*at)
			board_say_held(*at);
		return false;
	}
	b->held = (struct board_wait){ 0 };
	changed = sc_home_board_step(&b->seat, group);
	*busy = !sc_home_at_rest(group) || sc_home_board_busy(b->seat.board);
	board_give(b);
	if (changed)
		board_ring(b);
	board_say_away(b, *busy);
	return true;
}

uint32_t sh_home_board_processes(const struct sh_home_board *b)
{
	uint32_t i, n = 0;

	for (i = 0; i < SC_HOME_PROCESSES; i++)
		n += b->file->board.process[i].taken;
	return n;
}

bool sh_home_boards_deaf(void)
{
	return ears.fd < 0;
}

void sh_home_board_abandon(struct sh_home_board *b)
{
	if (!b)
		return;
	if (ears.fd >= 0)
		close(ears.fd);
	ears.fd = -1;
	board_close(b);
	free(b);
}
