/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The identity of the memory at an address. Private memory has no name that the kernel tells to
 * everybody: what lies there now and what lay there before look the same. Shared memory is named
 * by its file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/base/mapped.h"

#define MAPPED_QUERY	   _IOWR('f', 17, struct mapped_query)
#define MAPPED_READABLE	   1ull
#define MAPPED_SHARED	   8ull
#define MAPPED_OR_NEXT	   16ull
#define MAPPED_PAGE_SHARED (1ull << 61) /* Documentation/admin-guide/mm/pagemap.rst */
#define MAPPED_PRIME	   0x100000001b3ull

/* PROCMAP_QUERY of Linux 6.11; headers are older. */
struct mapped_query {
	uint64_t size, flags, addr;
	uint64_t start, end, rights, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};

/* One mapping, or several that continue each other and so are one piece of memory. */
struct mapped_piece {
	bool any, shared;
	uint64_t start, end, offset, inode;
	uint32_t major, minor;
};

struct mapped_sum {
	uint64_t begin, end, hash;
	struct mapped_piece last;
};

static void sum_word(struct mapped_sum *sum, uint64_t word)
{
	sum->hash = (sum->hash ^ word) * MAPPED_PRIME;
	sum->hash ^= sum->hash >> 29;
}

static void sum_flush(struct mapped_sum *sum)
{
	const struct mapped_piece *piece = &sum->last;

	if (!piece->any)
		return;
	sum_word(sum, piece->start - sum->begin);
	sum_word(sum, piece->end - piece->start);
	sum_word(sum, piece->shared);
	if (!piece->shared)
		return;
	sum_word(sum, piece->offset);
	sum_word(sum, piece->inode);
	sum_word(sum, (uint64_t)piece->major << 32 | piece->minor);
}

static bool piece_continues(const struct mapped_piece *last, const struct mapped_piece *next)
{
	if (!last->any || last->end != next->start || last->shared != next->shared)
		return false;
	return !next->shared || (last->inode == next->inode && last->major == next->major &&
				 last->minor == next->minor &&
				 last->offset + (last->end - last->start) == next->offset);
}

/* By rising addresses. */
static void sum_add(struct mapped_sum *sum, struct mapped_piece next)
{
	if (next.end <= sum->begin || next.start >= sum->end)
		return;
	if (next.start < sum->begin) {
		next.offset += sum->begin - next.start;
		next.start = sum->begin;
	}
	if (next.end > sum->end)
		next.end = sum->end;
	if (piece_continues(&sum->last, &next)) {
		sum->last.end = next.end;
		return;
	}
	sum_flush(sum);
	sum->last = next;
}

static uint64_t sum_end(struct mapped_sum *sum)
{
	sum_flush(sum);
	return sum->hash ? sum->hash : 1;
}

static struct mapped_sum sum_begin(const void *addr, size_t length)
{
	return (struct mapped_sum){ .begin = (uintptr_t)addr,
				    .end = (uintptr_t)addr + length,
				    .hash = 1469598103934665603ull };
}

/* ---- by the text ---------------------------------------------------------------------------- */

static void sum_line(struct mapped_sum *sum, const char *line)
{
	struct mapped_piece piece = { .any = true };
	char rights[5] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64,
		   &piece.start, &piece.end, rights, &piece.offset, &piece.major, &piece.minor,
		   &piece.inode) < 7)
		return;
	piece.shared = rights[3] == 's';
	sum_add(sum, piece);
}

uint64_t sh_mapped_identity_by_text(const void *addr, size_t length)
{
	struct mapped_sum sum = sum_begin(addr, length);
	FILE *f = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t room = 0;

	if (!f)
		return 0;
	while (getline(&line, &room, f) > 0)
		sum_line(&sum, line);
	free(line);
	fclose(f);
	return sum_end(&sum);
}

/* ---- without reading all of it -------------------------------------------------------------- */

/* What the kernel told of a range. identity 0: this kernel does not tell. */
struct mapped_answer {
	uint64_t identity;
	bool plain; /* all of it is private memory of no file, which the process can read */
};

static struct mapped_piece piece_of(const struct mapped_query *query)
{
	return (struct mapped_piece){ .any = true,
				      .start = query->start,
				      .end = query->end,
				      .offset = query->offset,
				      .shared = query->rights & MAPPED_SHARED,
				      .inode = query->inode,
				      .major = query->major,
				      .minor = query->minor };
}

static bool query_plain(const struct mapped_query *query, uint64_t at)
{
	return query->start <= at && !query->inode &&
	       (query->rights & (MAPPED_READABLE | MAPPED_SHARED)) == MAPPED_READABLE;
}

static struct mapped_answer mapped_asked(int maps, const void *addr, size_t length)
{
	struct mapped_sum sum = sum_begin(addr, length);
	struct mapped_answer answer = { .plain = true };
	uint64_t at = sum.begin;

	while (at < sum.end) {
		struct mapped_query query = { .size = sizeof(query),
					      .flags = MAPPED_OR_NEXT,
					      .addr = at };

		if (ioctl(maps, MAPPED_QUERY, &query)) {
			answer.plain = false;
			if (at == sum.begin && errno != ENOENT)
				return answer;
			break;
		}
		answer.plain = answer.plain && query_plain(&query, at);
		sum_add(&sum, piece_of(&query));
		at = query.end;
	}
	answer.identity = sum_end(&sum);
	return answer;
}

/*
 * The descriptor of /proc/self/maps, which each registration asks: to open it takes longer than
 * to ask. MAPS_CLOSED: not tried yet; MAPS_NOT_KEPT: the program may miss its number.
 */
#define MAPS_CLOSED   (-1)
#define MAPS_NOT_KEPT (-2)
#define MAPS_MANY     8192 /* descriptors that a program may have, of which it misses none */

static _Atomic int maps_kept = MAPS_CLOSED;

void sh_mapped_forget(void)
{
	int fd = atomic_exchange(&maps_kept, MAPS_CLOSED);

	if (fd >= 0)
		close(fd);
}

/* True if the program does not miss the number: it may not have it, or has very many. */
static bool maps_may_keep(int fd)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) &&
	       ((rlim_t)fd >= limit.rlim_cur || limit.rlim_cur >= MAPS_MANY);
}

/* Keeps the descriptor for the next ones, out of the program's numbers where these are few. */
static void maps_keep(int fd)
{
	int none = MAPS_CLOSED;

	if (atomic_load(&maps_kept) != MAPS_CLOSED) {
		close(fd);
		return;
	}
	sh_aside_one(&fd);
	if (!maps_may_keep(fd)) {
		atomic_compare_exchange_strong(&maps_kept, &none, MAPS_NOT_KEPT);
		close(fd);
	} else if (!atomic_compare_exchange_strong(&maps_kept, &none, fd)) {
		close(fd);
	}
}

static struct mapped_answer mapped_opened(const void *addr, size_t length)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct mapped_answer answer = { 0 };

	if (maps < 0)
		return answer;
	answer = mapped_asked(maps, addr, length);
	if (answer.identity)
		maps_keep(maps);
	else
		close(maps);
	return answer;
}

/* A program may have closed the descriptor that is kept: then it is nobody's, or another file's. */
static struct mapped_answer mapped_answered(const void *addr, size_t length)
{
	struct mapped_answer answer = { 0 };
	int maps = atomic_load(&maps_kept);

	if (maps >= 0)
		answer = mapped_asked(maps, addr, length);
	if (maps >= 0 && !answer.identity)
		atomic_compare_exchange_strong(&maps_kept, &maps, MAPS_NOT_KEPT);
	return answer.identity ? answer : mapped_opened(addr, length);
}

/* Is the page of a file, or of shared memory? Of a page that nobody has touched: no. */
static bool page_shared(int pagemap, uint64_t addr)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), word;

	return pread(pagemap, &word, sizeof(word), (off_t)(addr / page * sizeof(word))) ==
		       sizeof(word) &&
	       word & MAPPED_PAGE_SHARED;
}

/* Asks the pages of a region. A NIC has pinned it, so all of them are there. */
static uint64_t mapped_looked(const void *addr, size_t length)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool shared;

	if (pagemap < 0)
		return 0;
	shared = page_shared(pagemap, (uintptr_t)addr) ||
		 page_shared(pagemap, (uintptr_t)addr + length - 1);
	close(pagemap);
	return shared ? sh_mapped_identity_by_text(addr, length) : 0;
}

static struct mapped_answer mapped_look(const void *addr, size_t length)
{
	struct mapped_answer answer = { 0 };
	int saved = errno;

	if (!length || (uintptr_t)addr + length < length)
		return answer;
	answer = mapped_answered(addr, length);
	if (!answer.identity)
		answer.identity = mapped_looked(addr, length);
	errno = saved;
	return answer;
}

uint64_t sh_mapped_identity(const void *addr, size_t length)
{
	return mapped_look(addr, length).identity;
}

/* Of the first and the last byte: how many can be read, or a negative errno. */
static int mapped_read(const void *addr, size_t length)
{
	uint8_t bytes[2], *at = (uint8_t *)addr;
	struct iovec to = { bytes, 2 }, from[2] = { { at, 1 }, { at + length - 1, 1 } };
	int saved = errno, got;

	got = (int)process_vm_readv(getpid(), &to, 1, from, 2, 0);
	if (got < 0)
		got = -errno;
	errno = saved;
	return got;
}

bool sh_mapped_readable(const void *addr, size_t length)
{
	return !length || mapped_read(addr, length) == 2;
}

bool sh_mapped_elsewhere(const void *addr, size_t length)
{
	int got = length ? mapped_read(addr, length) : 2;

	return got == -EFAULT || got == 0 || got == 1;
}

uint64_t sh_mapped_told(const void *addr, size_t length, bool *elsewhere)
{
	struct mapped_answer answer = mapped_look(addr, length);

	*elsewhere = !answer.plain && sh_mapped_elsewhere(addr, length);
	return answer.identity;
}
