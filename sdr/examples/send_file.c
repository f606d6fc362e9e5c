/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sends a file to another host, in Writes of 8 MiB at most.
 *
 * usage: send_file DEV send|receive FILE MEET
 *
 * Each end puts what the other needs to know into the file MEET.send or MEET.receive: where your
 * program has a store or a socket, use that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sdr/rel.h>

enum { PART = 8 << 20, WAIT_S = 60 };

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* Checks a result of libsdr: 0, or a negative errno. */
static void fine(int ret, const char *what)
{
	errno = -ret;
	must(!ret, what);
}

/* Writes a file that appears whole: it is renamed when it is written. */
static void tell(const char *path, const void *data, size_t size)
{
	char part[4096];
	FILE *f;

	snprintf(part, sizeof(part), "%s.part", path);
	f = fopen(part, "wb");
	must(f && fwrite(data, 1, size, f) == size && !fclose(f) && !rename(part, path), path);
}

static size_t hear(const char *path, void *data, size_t size)
{
	FILE *f;
	size_t n;

	for (int i = 0; !(f = fopen(path, "rb")) && i < 100 * WAIT_S; i++)
		usleep(10000);
	must(f != NULL, path);
	n = fread(data, 1, size, f);
	fclose(f);
	unlink(path); /* the next run is not to find it */
	return n;
}

static void meet(struct sdr_qp *qp, const char *at, int sends)
{
	char mine[4096], theirs[4096], info[SDR_QP_INFO_MAX];
	size_t size = sizeof(info);

	snprintf(mine, sizeof(mine), "%s.%s", at, sends ? "send" : "receive");
	snprintf(theirs, sizeof(theirs), "%s.%s", at, sends ? "receive" : "send");
	fine(sdr_qp_info_get(qp, info, &size), "sdr_qp_info_get");
	tell(mine, info, size);
	size = hear(theirs, info, sizeof(info));
	fine(sdr_qp_connect(qp, info, size), "sdr_qp_connect");
}

int main(int argc, char **argv)
{
	int sends = argc == 5 && !strcmp(argv[2], "send"), fd, status;
	struct sdr_qp_attr attr = { .max_msg_size = PART, .max_msgs = 32, .rate_bps = 300000000 };
	struct sdr_rel_attr rel_attr = { .scheme = SDR_SCHEME_AUTO, .rtt_ns = 25000000 };
	struct sdr_result result;
	struct sdr_context *ctx;
	struct sdr_req *req;
	struct sdr_rel *rel;
	struct sdr_qp *qp;
	struct sdr_mr *mr;
	ssize_t n;
	char *mem;

	if (argc != 5 || (!sends && strcmp(argv[2], "receive"))) {
		fprintf(stderr, "usage: send_file DEV send|receive FILE MEET\n");
		return 2;
	}
	fd = sends ? open(argv[3], O_RDONLY) : open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	must(fd >= 0, argv[3]);
	mem = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must((ctx = sdr_context_create(argv[1], NULL)) != NULL, argv[1]);
	must((mr = sdr_mr_reg(ctx, mem, PART)) != NULL, "sdr_mr_reg");
	must((qp = sdr_qp_create(ctx, &attr)) != NULL, "sdr_qp_create");
	must((rel = sdr_rel_create(qp, &rel_attr)) != NULL, "sdr_rel_create");
	meet(qp, argv[4], sends);
	do { /* A Write has at least a byte; its immediate says how many of them are the file's. */
		n = sends ? read(fd, mem, PART) : 0;
		must(n >= 0, argv[3]);
		status = sends ? sdr_rel_write(rel, mr, mem, n > 0 ? (uint64_t)n : 1, (uint32_t)n,
					       &req)
			       : sdr_rel_recv(rel, mr, mem, PART, &req);
		fine(status, "a Write");
		while (!sdr_req_test(req, &result))
			sdr_poll(ctx);
		fine(result.status, "a Write");
		if (!sends)
			must(result.imm <= result.bytes &&
				     write(fd, mem, result.imm) == (ssize_t)result.imm,
			     argv[3]);
	} while (result.imm);
	/* The last answer may be lost: whoever has received answers for a second more. */
	for (int i = 0; !sends && i < 1000; i++, usleep(1000))
		sdr_poll(ctx);
	must(!sdr_rel_destroy(rel) && !sdr_qp_destroy(qp) && !sdr_mr_dereg(mr) &&
		     !sdr_context_destroy(ctx),
	     "end");
	return close(fd);
}
