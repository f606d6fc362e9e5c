/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What NCCL's interface allows and NCCL seldom does, and what it forbids: both ends of connections
 * in one process, moved in turns by one thread, so that each order of calls is the case's own.
 *
 *   nccl_odd LIBRARY [CASE]...
 *
 * Exit status: 0: all is right; 1: it is not, and stderr says what; 2: wrong options.
 */
#include "sdr/nccl/interface.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 16, MANY = 24, BURST = 256, SMALL = 20000, THREADS = 12 };
enum { LATER = 200, WAIT_S = 300 }; /* LATER: receives, more than a path has open */

static const struct nccl_net_v12 *net;
static const char *library_path, *case_name;
static void *library, *context;

static _Noreturn void wrong(const char *what, long a, long b)
{
	fprintf(stderr, "%s: %s (%ld, %ld)\n", case_name, what, a, b);
	exit(1);
}

#define MUST(call)                                                                                 \
	do {                                                                                       \
		enum nccl_result got = (call);                                                     \
		if (got)                                                                           \
			wrong(#call, got, __LINE__);                                               \
	} while (0)
#define IS(what)                                                                                   \
	do {                                                                                       \
		if (!(what))                                                                       \
			wrong(#what, 0, __LINE__);                                                 \
	} while (0)

__attribute__((format(printf, 5, 6))) static void logger(enum nccl_log_level level,
							 unsigned long parts, const char *file,
							 int line, const char *format, ...)
{
	va_list args;

	if (level > NCCL_LOG_WARN)
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* What is complained of here is the case's own mistake. */
static void quiet_logger(enum nccl_log_level level, unsigned long parts, const char *file, int line,
			 const char *format, ...)
{
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- a connection of two ends ---------------------------------------------------------------- */

struct handle {
	_Alignas(16) uint8_t bytes[NCCL_HANDLE_MAX];
};

struct pair {
	void *listener, *send, *recv;
	struct handle handle;
	uint8_t *out, *in; /* of BYTES each */
	void *out_mr, *in_mr;
};

static void meet(struct pair *p)
{
	double until = now() + WAIT_S;

	while (!p->send || !p->recv) {
		if (!p->send)
			MUST(net->connect(context, 0, p->handle.bytes, &p->send, NULL));
		if (!p->recv)
			MUST(net->accept(p->listener, &p->recv, NULL));
		IS(now() < until);
	}
}

static void take_memory(struct pair *p)
{
	IS(!posix_memalign((void **)&p->out, 4096, BYTES));
	IS(!posix_memalign((void **)&p->in, 4096, BYTES));
	for (int i = 0; i < BYTES; i++)
		p->out[i] = (uint8_t)(i * 7 + i / 251);
	memset(p->in, 0xee, BYTES);
	MUST(net->reg_mr(p->send, p->out, BYTES, NCCL_PTR_HOST, &p->out_mr));
	MUST(net->reg_mr(p->recv, p->in, BYTES, NCCL_PTR_HOST, &p->in_mr));
}

static void pair_open(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	MUST(net->listen(context, 0, p->handle.bytes, &p->listener));
	meet(p);
	take_memory(p);
}

static void pair_close(struct pair *p)
{
	if (p->out_mr)
		MUST(net->dereg_mr(p->send, p->out_mr));
	if (p->in_mr)
		MUST(net->dereg_mr(p->recv, p->in_mr));
	MUST(net->close_send(p->send));
	MUST(net->close_recv(p->recv));
	if (p->listener)
		MUST(net->close_listen(p->listener));
	free(p->out);
	free(p->in);
}

static void *post_recv(struct pair *p, int n, const size_t *at, const size_t *sizes,
		       const int *tags)
{
	void *data[8], *mrs[8], *request = NCCL_OPTIONAL_COMPLETION;
	size_t rooms[8];
	int own_tags[8];

	for (int i = 0; i < n; i++) {
		data[i] = p->in + at[i];
		mrs[i] = p->in_mr;
		rooms[i] = sizes[i];
		own_tags[i] = tags[i];
	}
	MUST(net->irecv(p->recv, n, data, rooms, own_tags, mrs, NULL, &request));
	IS(request != NCCL_OPTIONAL_COMPLETION);
	return request;
}

static void *post_one(struct pair *p, size_t at, size_t size, int tag)
{
	return post_recv(p, 1, &at, &size, &tag);
}

static void *try_send(struct pair *p, size_t at, size_t size, int tag)
{
	void *request = (void *)1;

	MUST(net->isend(p->send, p->out + at, size, tag, p->out_mr, NULL, &request));
	return request;
}

static void *send_soon(struct pair *p, size_t at, size_t size, int tag)
{
	double until = now() + WAIT_S;
	void *request;

	while (!(request = try_send(p, at, size, tag)))
		IS(now() < until);
	return request;
}

static bool is_done(void *request, int *sizes)
{
	int done = 7;

	MUST(net->test(request, &done, sizes));
	IS(done == 0 || done == 1);
	return done;
}

static void finish(void *request, int *sizes)
{
	double until = now() + WAIT_S;

	while (!is_done(request, sizes))
		IS(now() < until);
}

static void same(const struct pair *p, size_t to, size_t from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p->in[to + i] != p->out[from + i])
			wrong("a byte is wrong", (long)to, (long)i);
}

/* A message there, so that a case knows that its connection is well. */
static void is_well(struct pair *p)
{
	void *r = post_one(p, 0, BYTES, 3), *s = send_soon(p, 0, BYTES - 1, 3);
	int size[8] = { 0 };

	finish(s, size);
	IS(size[0] == BYTES - 1);
	finish(r, size);
	IS(size[0] == BYTES - 1);
	same(p, 0, 0, BYTES - 1);
	IS(p->in[BYTES - 1] == 0xee);
	memset(p->in, 0xee, BYTES);
}

/* ---- cases: beginnings ----------------------------------------------------------------------- */

/* A sender that calls for long before anybody accepts, and a receiver that has long listened. */
static void early_sender(void)
{
	struct pair p = { 0 };

	MUST(net->listen(context, 0, p.handle.bytes, &p.listener));
	for (int i = 0; i < 2000; i++)
		MUST(net->connect(context, 0, p.handle.bytes, &p.send, NULL));
	IS(!p.send);
	meet(&p);
	take_memory(&p);
	is_well(&p);
	pair_close(&p);
}

static void early_receiver(void)
{
	struct pair p = { 0 };

	MUST(net->listen(context, 0, p.handle.bytes, &p.listener));
	for (int i = 0; i < 2000; i++)
		MUST(net->accept(p.listener, &p.recv, NULL));
	IS(!p.recv);
	meet(&p);
	take_memory(&p);
	is_well(&p);
	pair_close(&p);
}

/* A listener serves one sender after the other, and is closed while its connections go on. */
static void one_listener(void)
{
	struct pair p[3] = { 0 };
	struct handle handle;

	MUST(net->listen(context, 0, handle.bytes, &p[0].listener));
	for (int i = 0; i < 3; i++) {
		p[i].listener = p[0].listener;
		p[i].handle = handle;
		meet(&p[i]);
		take_memory(&p[i]);
	}
	MUST(net->close_listen(p[0].listener));
	for (int i = 0; i < 3; i++) {
		p[i].listener = NULL;
		is_well(&p[i]);
	}
	for (int i = 0; i < 3; i++)
		pair_close(&p[i]);
}

/* Two senders of one listener that call at once. */
static void two_at_once(void)
{
	struct pair p = { 0 };
	struct handle other;
	void *send = NULL, *recv = NULL;
	double until = now() + WAIT_S;

	MUST(net->listen(context, 0, p.handle.bytes, &p.listener));
	other = p.handle;
	while (!p.send || !send || !p.recv || !recv) {
		if (!p.send)
			MUST(net->connect(context, 0, p.handle.bytes, &p.send, NULL));
		if (!send)
			MUST(net->connect(context, 0, other.bytes, &send, NULL));
		if (!p.recv)
			MUST(net->accept(p.listener, &p.recv, NULL));
		else if (!recv)
			MUST(net->accept(p.listener, &recv, NULL));
		IS(now() < until);
	}
	MUST(net->close_send(p.send));
	MUST(net->close_send(send));
	MUST(net->close_recv(p.recv));
	MUST(net->close_recv(recv));
	MUST(net->close_listen(p.listener));
}

/* A listener that nobody comes to, and a sender whose listener is gone. */
static void nobody(void)
{
	struct handle handle;
	void *listener, *send = NULL;
	enum nccl_result result = NCCL_SUCCESS;
	double until = now() + WAIT_S;

	MUST(net->listen(context, 0, handle.bytes, &listener));
	MUST(net->close_listen(listener));
	while (!result && now() < until)
		result = net->connect(context, 0, handle.bytes, &send, NULL);
	IS(result && !send);
	IS(net->listen(context, 99, handle.bytes, &listener));
	memset(&handle, 0, sizeof(handle));
	IS(net->connect(context, 0, handle.bytes, &send, NULL) && !send);
	MUST(net->close_send(NULL));
	MUST(net->close_recv(NULL));
	MUST(net->close_listen(NULL));
}

static void many(void)
{
	static struct pair p[MANY];
	int left = MANY;
	double until = now() + WAIT_S;

	memset(p, 0, sizeof(p));
	for (int i = 0; i < MANY; i++)
		MUST(net->listen(context, 0, p[i].handle.bytes, &p[i].listener));
	while (left) {
		left = 0;
		for (int i = 0; i < MANY; i++) {
			if (!p[i].send)
				MUST(net->connect(context, 0, p[i].handle.bytes, &p[i].send, NULL));
			if (!p[i].recv)
				MUST(net->accept(p[i].listener, &p[i].recv, NULL));
			left += !p[i].send || !p[i].recv;
		}
		IS(now() < until);
	}
	for (int i = 0; i < MANY; i++)
		take_memory(&p[i]);
	for (int i = MANY - 1; i >= 0; i--)
		is_well(&p[i]);
	for (int i = 0; i < MANY; i++)
		pair_close(&p[i]);
}

/* ---- cases: messages ------------------------------------------------------------------------- */

/* Eight buffers; tags come in another order, two of them are alike; what is sent is shorter. */
static void tags(void)
{
	static const size_t at[8] = { 0, 1000, 2000, 3001, 4000, 5000, 6000, 7000 };
	static const size_t room[8] = { 900, 900, 1000, 1, 900, 0, 900, 900 };
	static const int tag[8] = { 5, -1, 5, 0, 2147483647, 9, 10, 11 };
	/* the buffers in the order in which they are sent to, each from its own place */
	static const int order[8] = { 7, 3, 0, 6, 4, 1, 2, 5 };
	static const size_t size[8] = { 1, 899, 1000, 1, 0, 0, 512, 900 };
	struct pair p;
	int sizes[8];
	void *r, *s[8];

	pair_open(&p);
	IS(!try_send(&p, 0, 1, 5)); /* nothing is posted yet */
	r = post_recv(&p, 8, at, room, tag);
	IS(r);
	for (int i = 0; i < 8; i++) {
		int b = order[i];

		s[i] = send_soon(&p, at[b], size[b], tag[b]);
		if (i < 7)
			IS(!try_send(&p, 0, 1, 77)); /* no buffer has this tag */
	}
	for (int i = 0; i < 8; i++) {
		finish(s[i], sizes);
		IS(sizes[0] == (int)size[order[i]]);
	}
	memset(sizes, 0xff, sizeof(sizes));
	finish(r, sizes);
	for (int i = 0; i < 8; i++) {
		IS(sizes[i] == (int)size[i]);
		same(&p, at[i], at[i], size[i]);
		IS(p.in[at[i] + size[i]] == 0xee);
	}
	pair_close(&p);
}

/* No bytes from no place, and a test that asks for no sizes. */
static void nothing(void)
{
	struct pair p;
	void *data = NULL, *mr = NULL, *r = NULL, *s = NULL;
	size_t size = 0;
	int tag = 0;

	pair_open(&p);
	MUST(net->irecv(p.recv, 1, &data, &size, &tag, &mr, NULL, &r));
	IS(r);
	while (!s)
		MUST(net->isend(p.send, NULL, 0, 0, NULL, NULL, &s));
	finish(s, NULL);
	finish(r, NULL);
	is_well(&p);
	pair_close(&p);
}

/* All requests that NCCL may have, at once: 32 receives of 8 buffers, 256 sends. */
static void all_requests(void)
{
	static void *r[NCCL_REQUESTS_MAX], *s[BURST];
	size_t at[8], room[8];
	struct pair p;
	int tag[8], sizes[8];

	pair_open(&p);
	for (int i = 0; i < NCCL_REQUESTS_MAX; i++) {
		for (int k = 0; k < 8; k++) {
			at[k] = (size_t)(i * 8 + k) * 200;
			room[k] = 180;
			tag[k] = k;
		}
		for (double until = now() + WAIT_S; !(r[i] = post_recv(&p, 8, at, room, tag));)
			IS(now() < until);
	}
	for (int i = 0; i < BURST; i++)
		s[i] = send_soon(&p, (size_t)(i / 8 * 8 + 7 - i % 8) * 200, 170, 7 - i % 8);
	for (int i = 0; i < BURST; i++)
		finish(s[i], sizes);
	for (int i = 0; i < NCCL_REQUESTS_MAX; i++) {
		finish(r[i], sizes);
		for (int k = 0; k < 8; k++)
			IS(sizes[k] == 170);
	}
	for (int i = 0; i < BURST; i++)
		same(&p, (size_t)i * 200, (size_t)i * 200, 170);
	is_well(&p);
	pair_close(&p);
}

static void small(void)
{
	void *r[8] = { NULL }, *s[8] = { NULL };
	struct pair p;
	int sizes[8];

	pair_open(&p);
	for (int done = 0, received = 0; done < SMALL || received < SMALL;) {
		int i = done % 8, k = received % 8;

		for (int n = 0; n < 8; n++) {
			int at = (received + n) % 8;

			if (!r[at] && received + n < SMALL)
				r[at] = post_one(&p, (size_t)at * 8, 8, 0);
			if (!r[at])
				break;
		}
		for (int n = 0; n < 8 && done + n < SMALL; n++) {
			int at = (done + n) % 8;

			if (!s[at])
				s[at] = try_send(&p, (size_t)((done + n) % 4000) * 8, 8, 0);
			if (!s[at])
				break;
		}
		if (s[i] && is_done(s[i], sizes)) {
			s[i] = NULL;
			done++;
		}
		if (r[k] && is_done(r[k], sizes)) {
			IS(sizes[0] == 8);
			same(&p, (size_t)k * 8, (size_t)(received % 4000) * 8, 8);
			r[k] = NULL;
			received++;
		}
	}
	pair_close(&p);
}

/* ---- cases: memory --------------------------------------------------------------------------- */

/* Regions that overlap, one twice, one inside of a page; given back in another order, none twice. */
static void regions(void)
{
	struct pair p;
	void *mr[4], *none = NULL;
	int fd = -1;

	pair_open(&p);
	MUST(net->reg_mr(p.send, p.out, BYTES, NCCL_PTR_HOST, &mr[0]));
	MUST(net->reg_mr(p.send, p.out + 100, 5000, NCCL_PTR_HOST, &mr[1]));
	MUST(net->reg_mr(p.send, p.out + 4000, 1, NCCL_PTR_HOST, &mr[2]));
	MUST(net->reg_mr(p.recv, p.out, BYTES, NCCL_PTR_HOST, &mr[3]));
	IS(net->reg_mr(p.send, p.out, BYTES, NCCL_PTR_CUDA, &none));
	IS(!none);
	if (net->reg_mr_dmabuf)
		IS(net->reg_mr_dmabuf(p.send, p.out, BYTES, NCCL_PTR_CUDA, 0, fd, &none) && !none);
	MUST(net->dereg_mr(p.send, mr[0]));
	MUST(net->dereg_mr(p.send, mr[2]));
	is_well(&p);
	MUST(net->dereg_mr(p.recv, mr[3]));
	MUST(net->dereg_mr(p.send, mr[1]));
	is_well(&p);
	pair_close(&p);
}

/* What lies outside of its region is refused, and the connection goes on. */
static void outside(void)
{
	struct pair p;
	void *data, *request = NULL;
	size_t size = 100;
	int tag = 0;

	pair_open(&p);
	data = p.in + BYTES - 99;
	IS(net->irecv(p.recv, 1, &data, &size, &tag, &p.in_mr, NULL, &request) && !request);
	IS(net->isend(p.send, p.out - 1, 100, 0, p.out_mr, NULL, &request) && !request);
	IS(net->irecv(p.recv, 9, &data, &size, &tag, &p.in_mr, NULL, &request) && !request);
	is_well(&p);
	pair_close(&p);
}

/* ---- cases: ends ----------------------------------------------------------------------------- */

/* Until a request's end fails; each later call says so, too. */
static void fails(void *request)
{
	double until = now() + WAIT_S;
	int done = 0;

	while (!net->test(request, &done, NULL)) {
		IS(!done);
		IS(now() < until);
	}
	IS(net->test(request, &done, NULL) && !done);
}

/* Until a request is over: true if it ended well, false if it failed. */
static bool ends_well(void *request)
{
	double until = now() + WAIT_S;
	int done = 0;

	while (!done && !net->test(request, &done, NULL))
		IS(now() < until);
	return done;
}

/* A send that is longer than its receive is an error at both ends. */
static void too_long(void)
{
	struct pair p;
	void *r, *s = NULL;
	enum nccl_result result = NCCL_SUCCESS;
	double until = now() + WAIT_S;

	pair_open(&p);
	r = post_one(&p, 0, 100, 0);
	while (!result && !s && now() < until)
		result = net->isend(p.send, p.out, 101, 0, p.out_mr, NULL, &s);
	IS(result && !s);
	fails(r);
	IS(p.in[0] == 0xee);
	pair_close(&p);
}

static void closed_receiver(void)
{
	struct pair p;
	void *r, *s;

	pair_open(&p);
	r = post_one(&p, 0, 100, 0);
	s = send_soon(&p, 0, 100, 0);
	finish(r, NULL);
	post_one(&p, 0, 100, 0);
	MUST(net->close_recv(p.recv)); /* with a receive that is open, and memory */
	p.recv = p.in_mr = NULL;
	finish(s, NULL);
	pair_close(&p);
}

static void closed_sender(void)
{
	struct pair p;
	void *r;

	pair_open(&p);
	r = post_one(&p, 0, BYTES, 0);
	send_soon(&p, 0, BYTES, 0);
	MUST(net->close_send(p.send)); /* with a send that is open, and memory */
	p.send = p.out_mr = NULL;
	if (ends_well(r)) /* it had come before */
		same(&p, 0, 0, BYTES);
	pair_close(&p);
}

/* A receive fails, at once or later: the sender is gone. */
static void receives_nothing(struct pair *p)
{
	double until = now() + WAIT_S;
	enum nccl_result result = NCCL_SUCCESS;
	void *data = NULL, *mr = NULL, *request = NULL;
	size_t size = 0;
	int tag = 0, done = 0;

	while (!result && now() < until)
		result = request ? net->test(request, &done, NULL)
				 : net->irecv(p->recv, 1, &data, &size, &tag, &mr, NULL, &request);
	IS(result && !done);
}

/* NCCL gives memory back before it closes, also when it aborts with requests open. */
static void aborted_receiver(void)
{
	struct pair p;
	void *r, *s[2];

	pair_open(&p);
	r = post_one(&p, 0, 100, 0);
	s[0] = send_soon(&p, 0, 100, 0);
	finish(r, NULL);
	post_one(&p, 0, BYTES, 0);
	s[1] = send_soon(&p, 0, BYTES, 0);
	MUST(net->dereg_mr(p.recv, p.in_mr));
	p.in_mr = NULL;
	memset(p.in, 0x11, BYTES); /* it is the program's again */
	finish(s[0], NULL);
	MUST(net->close_recv(p.recv));
	p.recv = NULL;
	ends_well(s[1]);
	for (int i = 0; i < BYTES; i++)
		IS(p.in[i] == 0x11);
	pair_close(&p);
}

static void aborted_sender(void)
{
	struct pair p;
	void *r;

	pair_open(&p);
	r = post_one(&p, 0, BYTES, 0);
	send_soon(&p, 0, BYTES, 0);
	MUST(net->dereg_mr(p.send, p.out_mr));
	p.out_mr = NULL;
	if (ends_well(r))
		same(&p, 0, 0, BYTES);
	pair_close(&p);
}

/* Memory of receives that the path had no room for yet is the program's again, too. */
static void aborted_waiting(void)
{
	void *mr, *data, *request = NULL;
	size_t size = 8;
	struct pair p;
	int tag = 0;

	pair_open(&p);
	for (int i = 0; i < LATER; i++)
		post_one(&p, (size_t)i * 8, 8, 0);
	data = p.in + (size_t)LATER * 8;
	MUST(net->reg_mr(p.recv, data, size, NCCL_PTR_HOST, &mr));
	MUST(net->irecv(p.recv, 1, &data, &size, &tag, &mr, NULL, &request));
	IS(request);
	MUST(net->dereg_mr(p.recv, mr));
	IS(net->test(request, &tag, NULL));
	pair_close(&p);
}

/* A sender that is through, and closes before its receiver looks. */
static void early_close(void)
{
	struct pair p;
	void *r, *s;

	pair_open(&p);
	r = post_one(&p, 0, BYTES, 0);
	s = send_soon(&p, 0, BYTES, 0);
	finish(s, NULL);
	MUST(net->dereg_mr(p.send, p.out_mr));
	MUST(net->close_send(p.send));
	p.send = p.out_mr = NULL;
	finish(r, NULL);
	same(&p, 0, 0, BYTES);
	receives_nothing(&p);
	pair_close(&p);
}

/* A sender that closes before anybody has accepted, and a listener that closes on its caller. */
static void gone_before(void)
{
	struct pair p = { 0 };
	enum nccl_result result = NCCL_SUCCESS;
	double until = now() + WAIT_S;

	MUST(net->listen(context, 0, p.handle.bytes, &p.listener));
	while (!p.send) {
		MUST(net->accept(p.listener, &p.recv, NULL));
		MUST(net->connect(context, 0, p.handle.bytes, &p.send, NULL));
	}
	MUST(net->close_send(p.send));
	while (!p.recv)
		MUST(net->accept(p.listener, &p.recv, NULL));
	receives_nothing(&p);
	MUST(net->close_recv(p.recv));
	p.send = NULL;
	for (int i = 0; i < 2000; i++)
		MUST(net->connect(context, 0, p.handle.bytes, &p.send, NULL));
	MUST(net->close_listen(p.listener));
	while (!result && now() < until)
		result = net->connect(context, 0, p.handle.bytes, &p.send, NULL);
	IS(result && !p.send);
}

/* Threads, each of which connects, registers, sends and closes, all at once. */
static void *thread_main(void *arg)
{
	struct pair p;

	for (int i = 0; i < 3; i++) {
		pair_open(&p);
		is_well(&p);
		pair_close(&p);
	}
	return arg;
}

/* Memory is registered and given back while another thread sends. */
static void *registers(void *arg)
{
	struct pair *p = arg;
	void *mr[2];

	for (int i = 0; i < 500; i++) {
		MUST(net->reg_mr(p->send, p->out + i, 1000, NCCL_PTR_HOST, &mr[0]));
		MUST(net->reg_mr(p->recv, p->in + i, 1000, NCCL_PTR_HOST, &mr[1]));
		MUST(net->dereg_mr(p->send, mr[0]));
		MUST(net->dereg_mr(p->recv, mr[1]));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	struct pair p;

	for (int i = 0; i < THREADS; i++)
		IS(!pthread_create(&thread[i], NULL, thread_main, NULL));
	for (int i = 0; i < THREADS; i++)
		IS(!pthread_join(thread[i], NULL));
	pair_open(&p);
	IS(!pthread_create(&thread[0], NULL, registers, &p));
	for (int i = 0; i < 50; i++)
		is_well(&p);
	IS(!pthread_join(thread[0], NULL));
	pair_close(&p);
}

/* ---- cases: the library ---------------------------------------------------------------------- */

#define PROPERTIES(version)                                                                        \
	do {                                                                                       \
		const struct nccl_net_##version *table =                                           \
			dlsym(library, "ncclNetPlugin_" #version);                                 \
		struct nccl_properties_##version p;                                                \
		int n = 0;                                                                         \
		IS(table && table->name && !table->make_vdevice);                                  \
		MUST(table->devices(&n));                                                          \
		IS(n >= 1);                                                                        \
		for (int i = 0; i < n; i++) {                                                      \
			memset(&p, 0xff, sizeof(p));                                               \
			MUST(table->get_properties(i, &p));                                        \
			IS(p.name &&p.speed > 0 && p.port >= 0 && p.max_comms > 0);                \
			IS(p.ptr_support == NCCL_PTR_HOST && !p.reg_is_global);                    \
			IS(p.max_recvs >= 1 && p.max_recvs <= 8 && !p.device_type);                \
			IS(p.vdevice.n == 1 && p.vdevice.devices[0] == i);                         \
			IS(p.max_p2p_bytes > 0 && p.max_p2p_bytes <= 1ull << 40);                  \
			IS(p.max_coll_bytes > 0 && p.max_coll_bytes <= 1ull << 40);                \
		}                                                                                  \
		IS(table->get_properties(n, &p));                                                  \
		IS(table->get_properties(-1, &p));                                                 \
	} while (0)

static void properties(void)
{
	PROPERTIES(v10);
	PROPERTIES(v11);
	PROPERTIES(v12);
}

static void load(void)
{
	struct nccl_config config = { NCCL_UNDEFINED };

	library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	net = dlsym(library, NCCL_NET_SYMBOL_V12);
	IS(net);
	MUST(net->init(&context, 1, &config, logger, NULL));
}

/* Several communicators of NCCL, each with an init; the library unloaded and loaded again. */
static void again(void)
{
	struct nccl_config config = { 42 };
	struct nccl_attr attr;
	void *second = NULL, *first = context;
	struct pair p;

	memset(&attr, 0xff, sizeof(attr));
	MUST(net->init(&second, 2, &config, logger, NULL));
	MUST(net->set_attr(second, &attr));
	context = second;
	pair_open(&p);
	MUST(net->finalize(first));
	is_well(&p);
	pair_close(&p);
	MUST(net->finalize(second));
	IS(!dlclose(library));
	load();
	pair_open(&p);
	is_well(&p);
	pair_close(&p);
}

/* Settings that name a NIC wrongly leave nothing behind: they may be mended, and begun again. */
static void mended(void)
{
	struct nccl_config config = { NCCL_UNDEFINED };
	struct nccl_properties_v12 p;
	char right[256], nics[300];

	snprintf(right, sizeof(right), "%s", getenv("NCCL_SDR_HCA"));
	snprintf(nics, sizeof(nics), "%s,mlx9_9", right);
	MUST(net->finalize(context));
	IS(!dlclose(library));
	library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	net = library ? dlsym(library, NCCL_NET_SYMBOL_V12) : NULL;
	IS(net);
	setenv("NCCL_SDR_HCA", nics, 1);
	IS(net->init(&context, 1, &config, quiet_logger, NULL));
	setenv("NCCL_SDR_HCA", right, 1);
	MUST(net->init(&context, 1, &config, logger, NULL));
	MUST(net->get_properties(0, &p));
	for (char *c = right; *c; c++)
		*c = *c == ',' ? '+' : *c;
	IS(!strcmp(p.name, right));
}

/* ---- main ------------------------------------------------------------------------------------ */

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct {
	const char *name;
	void (*run)(void);
} cases[] = { CASE(properties),
	      CASE(early_sender),
	      CASE(early_receiver),
	      CASE(one_listener),
	      CASE(two_at_once),
	      CASE(nobody),
	      CASE(many),
	      CASE(tags),
	      CASE(nothing),
	      CASE(all_requests),
	      CASE(small),
	      CASE(regions),
	      CASE(outside),
	      CASE(too_long),
	      CASE(closed_receiver),
	      CASE(closed_sender),
	      CASE(aborted_receiver),
	      CASE(aborted_sender),
	      CASE(aborted_waiting),
	      CASE(early_close),
	      CASE(gone_before),
	      CASE(threads),
	      CASE(again),
	      CASE(mended) };

static bool is_asked(int argc, char **argv, const char *name)
{
	bool asked = argc == 2;

	for (int i = 2; i < argc; i++)
		asked |= !strcmp(argv[i], name);
	return asked;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: nccl_odd LIBRARY [CASE]...\n");
		return 2;
	}
	library_path = argv[1];
	case_name = "load";
	load();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double began = now();

		if (!is_asked(argc, argv, cases[i].name))
			continue;
		case_name = cases[i].name;
		cases[i].run();
		printf("%s: %.2f s\n", case_name, now() - began);
		fflush(stdout);
	}
	MUST(net->finalize(context));
	IS(!dlclose(library));
	return 0;
}
