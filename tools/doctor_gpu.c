/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * GPUs beside the NICs. NCCL's LL128 wants 128 bytes to come to a GPU at once, and uses it where
 * only PCIe switches are between the GPU and its NIC. NCCL looks at the default NIC: this looks at
 * its backups.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shiftlib/backup/pair.h"
#include "tools/doctor.h"

#define GPU_BUS	     "/sys/bus/pci/devices"
#define GPU_VENDOR   0x10de /* NVIDIA: NCCL is for theirs */
#define GPU_CLASS    0x03   /* display controllers; the upper 8 of 24 bits */
#define DOCTOR_GPUS  64
#define DOCTOR_LL128 "LL128"

struct gpu {
	char pci[sizeof(((struct backup_nic *)0)->pci)];
};

struct gpus {
	unsigned n;
	struct gpu gpu[DOCTOR_GPUS];
};

static unsigned long gpu_number(const char *function, const char *file)
{
	char path[PATH_MAX], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), GPU_BUS "/%s/%s", function, file);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return strtoul(text, NULL, 16);
}

/* The link leads to ../../../devices/pci0000:10/0000:10:00.0/...: from "pci" on, as a NIC's. */
static bool gpu_place(const char *function, struct gpu *gpu)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *at;
	ssize_t n;

	snprintf(path, sizeof(path), GPU_BUS "/%s", function);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	at = strstr(target, "/devices/pci");
	if (!at || strlen(at) >= sizeof(gpu->pci))
		return false;
	snprintf(gpu->pci, sizeof(gpu->pci), "%s", at + strlen("/devices/"));
	return true;
}

static void gpus_find(struct gpus *gpus)
{
	DIR *bus = opendir(GPU_BUS);
	struct dirent *entry;

	while (bus && gpus->n < DOCTOR_GPUS && (entry = readdir(bus)))
		if (entry->d_name[0] != '.' && gpu_number(entry->d_name, "vendor") == GPU_VENDOR &&
		    gpu_number(entry->d_name, "class") >> 16 == GPU_CLASS)
			gpus->n += gpu_place(entry->d_name, &gpus->gpu[gpus->n]);
	if (bus)
		closedir(bus);
}

static bool gpu_is_near(const struct gpu *gpu, const struct device *dev)
{
	return backup_below_one_switch(gpu->pci, dev->place.pci);
}

static unsigned gpus_near(const struct gpus *gpus, const struct device *dev)
{
	unsigned n = 0;

	for (unsigned i = 0; i < gpus->n; i++)
		n += gpu_is_near(&gpus->gpu[i], dev);
	return n;
}

/* As near to each GPU as the default NIC is? */
static bool backup_as_near(const struct gpus *gpus, const struct device *dev,
			   const struct device *backup)
{
	for (unsigned i = 0; i < gpus->n; i++)
		if (gpu_is_near(&gpus->gpu[i], dev) && !gpu_is_near(&gpus->gpu[i], backup))
			return false;
	return true;
}

static const struct device *backup_too_far(const struct doctor *d, const struct gpus *gpus,
					   unsigned i)
{
	for (unsigned k = 0; k < d->map.n_backups[i]; k++) {
		const struct device *backup = &d->devices.dev[d->map.backups[i][k]];

		if (!backup_as_near(gpus, &d->devices.dev[i], backup))
			return backup;
	}
	return NULL;
}

/* Returns whether LL128 may be used with that NIC. */
static bool gpu_judge(struct doctor *d, const struct gpus *gpus, unsigned i)
{
	const struct device *dev = &d->devices.dev[i], *far;

	if (!gpus_near(gpus, dev) || !d->map.n_backups[i])
		return true;
	far = backup_too_far(d, gpus, i);
	if (far)
		doctor_say(d, DOCTOR_LL128, FINDING_NOTE,
			   "%s is not below one PCIe switch with the GPUs of %s: NCCL_PROTO=^LL128",
			   far->name, dev->name);
	else
		doctor_say(d, DOCTOR_LL128, FINDING_OK,
			   "the backups of %s are below one PCIe switch with its GPUs", dev->name);
	return !far;
}

void doctor_gpus(struct doctor *d)
{
	static struct gpus gpus;
	bool good = true;

	gpus_find(&gpus);
	if (!gpus.n)
		return;
#ifdef __aarch64__
	/* NCCL lets LL128 pass Grace's own links, too; nobody has tried them with a backup. */
	doctor_say(d, DOCTOR_LL128, FINDING_NOTE,
		   "NCCL may use it over the CPU here, which was not tried: NCCL_PROTO=^LL128");
	good = false;
#endif
	for (unsigned i = 0; i < d->devices.n; i++)
		good &= gpu_judge(d, &gpus, i);
	if (good)
		doctor_say(d, DOCTOR_LL128, FINDING_OK,
			   "safe on this host; NCCL_PROTO must be the same on all ranks");
}
