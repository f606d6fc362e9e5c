/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shiftctl version: prints its own version, that of the library that programs would get, and that
 * of the library underneath.
 */
#include <getopt.h>
#include <stdio.h>

#include "tools/shiftctl.h"

static int version_options_parse(int argc, char **argv, const char **libdir)
{
	static const struct option longopts[] = {
		{ "libdir", required_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (c != 'd') {
			ctl_say("see shiftctl --help");
			return CTL_USAGE;
		}
		*libdir = optarg;
	}
	if (optind == argc)
		return 0;
	ctl_say("version takes no argument \"%s\"; see shiftctl --help", argv[optind]);
	return CTL_USAGE;
}

int cmd_version(int argc, char **argv)
{
	char version[LIBRARY_VERSION_MAX], protocol[LIBRARY_VERSION_MAX], distro[64];
	char err[CTL_ERR_MAX];
	const char *libdir = NULL;
	struct library lib;
	int rc = version_options_parse(argc, argv, &libdir);

	if (rc)
		return rc;
	printf("shiftctl    %s\n", SHIFT_VERSION);
	rc = library_find(libdir, &lib, err);
	if (*lib.ours && !library_version(&lib, version, protocol))
		printf("library     %s, %s\nprotocol    %s\n", version, lib.ours, protocol);
	else if (*lib.ours)
		printf("library     of unknown version, %s\n", lib.ours);
	if (*lib.distro) {
		library_distro_version(lib.distro, distro, sizeof(distro));
		printf("libibverbs  %s%s\n", lib.distro, distro);
	}
	if (rc)
		ctl_say("%s", err);
	return rc ? CTL_NOT_ALL : CTL_OK;
}
