/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Limits of a process so low that SHIFT takes nothing of what they count, and protects nothing. */
#include <sys/resource.h>
#include "shiftlib/base/aside.h"
#include "shiftlib/base/few.h"

#define FEW_FILES     512
#define FEW_ADDRESSES (16ull << 30)

const char sh_few_files_why[] = "its limit of file descriptors is below 512 (ulimit -n): they are "
				"the program's, and none are beside them (ulimit -Hn)";
const char sh_few_addresses_why[] =
	"the process may have less than 16 GiB of address space (ulimit -v)";

bool sh_few_files(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < FEW_FILES && !sh_aside_works();
}

bool sh_few_addresses(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur < FEW_ADDRESSES;
}
