/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Payload from one list of buffers to another. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "simnic/device/copy.h"
#include "simnic/device/engine.h"
#include "simnic/fabric/check.h"

#define WORD	   8
#define WIDE	   32  /* alignment of blocks */
#define BLOCK	   128 /* bytes that are moved at a time */
#define LINE	   128
#define LOOK_PAGES 512
#define TORN_NS	   1000 /* time between the halves of a torn line */

static bool torn;		      /* lock held */
static bool guarded;		      /* set before the first copy, if at all */
static volatile sig_atomic_t copying; /* a fault is the copy's */
static sigjmp_buf at_fault;

/*
 * Orders the stores of a payload for who polls its end. No atomic_thread_fence(): ThreadSanitizer
 * does not know it.
 */
static void store_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ishst" ::: "memory");
#else
	__asm__ volatile("" ::: "memory"); /* x86 keeps stores in order */
#endif
}

/* ---- whole words ---------------------------------------------------------------------------- */

/* The largest of 1, 2, 4 and 8 that divides the address and is no more than len. */
static size_t unit_at(uintptr_t address, size_t len)
{
	size_t unit = WORD;

	while (unit > len || address % unit)
		unit /= 2;
	return unit;
}

/* Stores a unit by one access; the source is private memory at any address. */
static void store_unit(uint8_t *dst, const uint8_t *src, size_t unit)
{
	uint32_t four;
	uint16_t two;

	switch (unit) {
	case 1: __atomic_store_n(dst, *src, __ATOMIC_RELAXED); break;
	case 2:
		memcpy(&two, src, sizeof(two));
		__atomic_store_n((uint16_t *)dst, two, __ATOMIC_RELAXED);
		break;
	case 4:
		memcpy(&four, src, sizeof(four));
		__atomic_store_n((uint32_t *)dst, four, __ATOMIC_RELAXED);
		break;
	}
}

/* Loads a unit by one access; the destination is private memory at any address. */
static void load_unit(uint8_t *dst, const uint8_t *src, size_t unit)
{
	uint32_t four;
	uint16_t two;

	switch (unit) {
	case 1: *dst = __atomic_load_n(src, __ATOMIC_RELAXED); break;
	case 2:
		two = __atomic_load_n((const uint16_t *)src, __ATOMIC_RELAXED);
		memcpy(dst, &two, sizeof(two));
		break;
	case 4:
		four = __atomic_load_n((const uint32_t *)src, __ATOMIC_RELAXED);
		memcpy(dst, &four, sizeof(four));
		break;
	}
}

#ifdef __SSE2__
/*
 * Blocks that are moved several words at a time, from or to an address that is a multiple of WIDE.
 * Processors with AVX access aligned 16 bytes as a whole, and older ones each half of them: no
 * word is torn. Of 32 bytes, each half is such an access.
 */
__attribute__((target("avx"))) static size_t store_avx(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t n;

	for (n = 0; n + BLOCK <= len; n += BLOCK) {
		volatile __m256i *to = (volatile __m256i *)(dst + n);

		for (size_t i = 0; i < BLOCK / sizeof(*to); i++)
			to[i] = _mm256_loadu_si256((const __m256i *)(src + n) + i);
	}
	return n;
}

__attribute__((target("avx"))) static size_t load_avx(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t n;

	for (n = 0; n + BLOCK <= len; n += BLOCK) {
		const volatile __m256i *from = (const volatile __m256i *)(src + n);

		for (size_t i = 0; i < BLOCK / sizeof(*from); i++)
			_mm256_storeu_si256((__m256i *)(dst + n) + i, from[i]);
	}
	return n;
}

static size_t store_sse(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t n;

	for (n = 0; n + BLOCK <= len; n += BLOCK) {
		volatile __m128i *to = (volatile __m128i *)(dst + n);

		for (size_t i = 0; i < BLOCK / sizeof(*to); i++)
			to[i] = _mm_loadu_si128((const __m128i *)(src + n) + i);
	}
	return n;
}

static size_t load_sse(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t n;

	for (n = 0; n + BLOCK <= len; n += BLOCK) {
		const volatile __m128i *from = (const volatile __m128i *)(src + n);

		for (size_t i = 0; i < BLOCK / sizeof(*from); i++)
			_mm_storeu_si128((__m128i *)(dst + n) + i, from[i]);
	}
	return n;
}

static size_t store_wide(uint8_t *dst, const uint8_t *src, size_t len)
{
	return __builtin_cpu_supports("avx") ? store_avx(dst, src, len) : store_sse(dst, src, len);
}

static size_t load_wide(uint8_t *dst, const uint8_t *src, size_t len)
{
	return __builtin_cpu_supports("avx") ? load_avx(dst, src, len) : load_sse(dst, src, len);
}
#else
static size_t store_wide(uint8_t *dst, const uint8_t *src, size_t len)
{
	return 0;
}

static size_t load_wide(uint8_t *dst, const uint8_t *src, size_t len)
{
	return 0;
}
#endif

/* Returns the bytes in front of the first address that blocks may have; all, if there is none. */
static size_t before_blocks(uintptr_t address, size_t len)
{
	size_t head = -address % WIDE;

	return head + BLOCK <= len ? head : len;
}

static size_t store_each(uint8_t *dst, const uint8_t *src, size_t len)
{
	uint64_t word;
	size_t n;

	for (n = 0; n + WORD <= len; n += WORD) {
		memcpy(&word, src + n, sizeof(word));
		__atomic_store_n((uint64_t *)(dst + n), word, __ATOMIC_RELAXED);
	}
	return n;
}

static size_t load_each(uint8_t *dst, const uint8_t *src, size_t len)
{
	uint64_t word;
	size_t n;

	for (n = 0; n + WORD <= len; n += WORD) {
		word = __atomic_load_n((const uint64_t *)(src + n), __ATOMIC_RELAXED);
		memcpy(dst + n, &word, sizeof(word));
	}
	return n;
}

static size_t store_whole(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t n = store_each(dst, src, before_blocks((uintptr_t)dst, len));

	n += store_wide(dst + n, src + n, len - n);
	return n + store_each(dst + n, src + n, len - n);
}

static size_t load_whole(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t n = load_each(dst, src, before_blocks((uintptr_t)src, len));

	n += load_wide(dst + n, src + n, len - n);
	return n + load_each(dst + n, src + n, len - n);
}

/* Stores the bytes in order; each whole word of the destination by one access. */
static void store_words(uint8_t *dst, const uint8_t *src, size_t len)
{
	for (size_t n; len; dst += n, src += n, len -= n) {
		n = unit_at((uintptr_t)dst, len);
		if (n < WORD)
			store_unit(dst, src, n);
		else
			n = store_whole(dst, src, len);
	}
}

/* Loads the bytes in order; each whole word of the source by one access. */
static void load_words(uint8_t *dst, const uint8_t *src, size_t len)
{
	for (size_t n; len; dst += n, src += n, len -= n) {
		n = unit_at((uintptr_t)src, len);
		if (n < WORD)
			load_unit(dst, src, n);
		else
			n = load_whole(dst, src, len);
	}
}

/* ---- the order ------------------------------------------------------------------------------ */

/*
 * Stores the last word, or its part, when all before it is stored: who polls the last bytes sees
 * the rest.
 */
static void store_in_order(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t tail = ((uintptr_t)dst + len - 1) % WORD + 1;

	tail = tail < len ? tail : len;
	store_words(dst, src, len - tail);
	store_barrier();
	store_words(dst + len - tail, src + len - tail, tail);
}

static void pause_in_line(void)
{
	uint64_t end = sn_clock_ns() + TORN_NS;

	while (sn_clock_ns() < end)
		;
}

/* Stores what is within one line: the bytes of its second half come first. */
static void store_line(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t left = LINE / 2 - (uintptr_t)dst % LINE, first = left < len ? left : len;

	if ((uintptr_t)dst % LINE >= LINE / 2)
		first = 0;
	store_words(dst + first, src + first, len - first);
	if (first && first < len)
		pause_in_line();
	store_words(dst, src, first);
}

static void store_torn(uint8_t *dst, const uint8_t *src, size_t len)
{
	for (size_t n; len; dst += n, src += n, len -= n) {
		n = LINE - (uintptr_t)dst % LINE;
		n = n < len ? n : len;
		store_line(dst, src, n);
	}
}

void sn_copy_tear(bool lines)
{
	torn = lines;
}

/* ---- what is mapped ------------------------------------------------------------------------- */

static bool range_mapped(uintptr_t at, uintptr_t end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), n;
	unsigned char seen[LOOK_PAGES];

	for (at &= -page; at < end; at += n) {
		n = end - at < LOOK_PAGES * page ? end - at : LOOK_PAGES * page;
		if (mincore((void *)at, n, seen))
			return false;
	}
	return true;
}

bool sn_copy_mapped(const struct iovec *iov, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uintptr_t begin = (uintptr_t)iov[i].iov_base;

		if (!range_mapped(begin, begin + iov[i].iov_len))
			return false;
	}
	return true;
}

/*
 * A fault that is not a copy's is met again, and ends the process. SA_NODEFER: the copy does not
 * return from here, which would unblock the signal.
 */
static void fault(int signal)
{
	const struct sigaction by_default = { .sa_handler = SIG_DFL };

	if (copying)
		siglongjmp(at_fault, 1);
	sigaction(signal, &by_default, NULL);
}

void sn_copy_guard(void)
{
	const struct sigaction act = { .sa_handler = fault, .sa_flags = SA_NODEFER };
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	guarded = !sigaction(SIGSEGV, &act, NULL) && !sigaction(SIGBUS, &act, NULL) &&
		  !sigprocmask(SIG_UNBLOCK, &faults, NULL);
}

bool sn_copy_is_guarded(void)
{
	return guarded;
}

/* ---- lists ---------------------------------------------------------------------------------- */

uint32_t sn_cursor_slice(struct sn_cursor *c, uint64_t bytes, struct iovec *out)
{
	uint32_t pieces = 0;

	while (bytes && c->at < c->n) {
		const struct iovec *iov = &c->iov[c->at];
		uint64_t left = iov->iov_len - c->offset, take = left < bytes ? left : bytes;

		SN_ASSERT(c->offset <= iov->iov_len);
		out[pieces].iov_base = (uint8_t *)iov->iov_base + c->offset;
		out[pieces++].iov_len = take;
		bytes -= take;
		c->offset += take;
		if (c->offset == iov->iov_len) {
			c->at++;
			c->offset = 0;
		}
	}
	return pieces;
}

uint32_t sn_iov_skip(struct iovec *iov, uint32_t n, uint64_t bytes)
{
	uint32_t i, out = 0;

	for (i = 0; i < n && bytes; i++) {
		uint64_t step = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;

		bytes -= step;
		iov[i].iov_base = (uint8_t *)iov[i].iov_base + step;
		iov[i].iov_len -= step;
		if (iov[i].iov_len)
			break;
	}
	while (i < n)
		iov[out++] = iov[i++];
	return out;
}

typedef void copy_fn(uint8_t *dst, const uint8_t *src, size_t len);

static void copy_pieces(copy_fn *copy, const struct iovec *dst, uint32_t n_dst,
			const struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	struct sn_cursor d = { .iov = dst, .n = n_dst }, s = { .iov = src, .n = n_src };

	while (bytes) {
		uint64_t dl = d.iov[d.at].iov_len - d.offset, sl = s.iov[s.at].iov_len - s.offset;
		uint64_t len = dl < sl ? dl : sl;
		struct iovec to, from;

		len = len < bytes ? len : bytes;
		sn_cursor_slice(&d, len, &to);
		sn_cursor_slice(&s, len, &from);
		if (len)
			copy(to.iov_base, from.iov_base, len);
		bytes -= len;
		/* Zero-length pieces are stepped over by the next slice. */
		while (bytes && d.at < d.n && !d.iov[d.at].iov_len)
			d.at++;
		while (bytes && s.at < s.n && !s.iov[s.at].iov_len)
			s.at++;
	}
}

/* Says how many reads of this process have found nothing where memory should be. */
static volatile sig_atomic_t missed;

void sn_copy_missed(void)
{
	missed++;
}

int sn_copy_pieces(const struct iovec *dst, uint32_t n_dst, const struct iovec *src, uint32_t n_src,
		   uint64_t bytes)
{
	copy_fn *copy = torn ? store_torn : store_in_order;
	sig_atomic_t before = missed;

	if (guarded && sigsetjmp(at_fault, 0)) {
		copying = 0;
		return -EFAULT;
	}
	copying = guarded;
	copy_pieces(copy, dst, n_dst, src, n_src, bytes);
	copying = 0;
	return missed == before ? 0 : -EFAULT;
}

void sn_copy_out(void *dst, const struct iovec *src, uint32_t n_src, uint64_t bytes)
{
	struct iovec to = { dst, bytes };

	copy_pieces(load_words, &to, 1, src, n_src, bytes);
}

void sn_copy_touch(const struct iovec *iov, uint32_t n)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (uint32_t i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)iov[i].iov_base, end = at + iov[i].iov_len;

		for (; at < end; at = (at | (page - 1)) + 1)
			(void)__atomic_load_n((const uint8_t *)at, __ATOMIC_RELAXED);
	}
}
