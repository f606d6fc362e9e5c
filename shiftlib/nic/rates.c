/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shiftlib/nic/rates.h"

#define TEXT	 64
#define MBPS_MAX 100000000.0

/* Reads a file. False: no such file, or nothing in it. */
static bool text_of(const char *sysfs, const char *device, const char *file, char out[TEXT])
{
	char path[256];
	FILE *f;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", sysfs, device, file);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(out, TEXT, f))
		out[0] = '\0';
	fclose(f);
	out[strcspn(out, "\n")] = '\0';
	return out[0];
}

/* Reads a number; 0, which means not known, for other text. */
static double number_of(const char *sysfs, const char *device, const char *file)
{
	char text[TEXT], *end;
	double value = text_of(sysfs, device, file, text) ? strtod(text, &end) : 0;

	return value > 0 && value < MBPS_MAX ? value : 0;
}

static uint32_t mbps(double value)
{
	return value > 0 && value < MBPS_MAX ? (uint32_t)value : 0;
}

/* Returns speed times lanes, without the line code: 8b/10b up to 5 GT/s, then 128b/130b. */
static uint32_t bus_of(const char *sysfs, const char *device, const char *where, const char *which)
{
	char file[96];
	double speed, lanes;

	snprintf(file, sizeof(file), "%s/%s_link_speed", where, which);
	speed = number_of(sysfs, device, file);
	snprintf(file, sizeof(file), "%s/%s_link_width", where, which);
	lanes = number_of(sysfs, device, file);
	return mbps(speed * 1000 * lanes * (speed > 5 ? 128.0 / 130 : 0.8));
}

/*
 * Returns the place of the function's link: of a virtual function that of its physical one, of a
 * subfunction that of the function above.
 */
static const char *function_of(const char *sysfs, const char *device)
{
	static const char *const places[] = { "device", "device/physfn" };
	char text[TEXT];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (bus_of(sysfs, device, places[i], "current"))
			return places[i];
	return text_of(sysfs, device, "device/current_link_speed", text) ? NULL : "device/..";
}

static void bus_read(const char *sysfs, const char *device, struct sh_slow_rates *out)
{
	const char *function = function_of(sysfs, device);
	uint32_t above;
	char bridge[32];

	if (!function)
		return;
	out->bus = bus_of(sysfs, device, function, "current");
	out->bus_most = bus_of(sysfs, device, function, "max");
	snprintf(bridge, sizeof(bridge), "%s/..", function);
	above = bus_of(sysfs, device, bridge, "max");
	if (above && above < out->bus_most)
		out->bus_most = above;
}

static bool port_is_active(const char *sysfs, const char *device)
{
	char text[TEXT];

	return text_of(sysfs, device, "ports/1/state", text) && strstr(text, "ACTIVE");
}

/*
 * Reads the rates. The state is read after the rate: a port that went down in between is not
 * active.
 */
void sh_rates_read(const char *sysfs, const char *device, struct sh_slow_rates *out)
{
	memset(out, 0, sizeof(*out));
	out->port = mbps(number_of(sysfs, device, "ports/1/rate") * 1000);
	if (!out->port || !port_is_active(sysfs, device)) {
		out->port = 0;
		return;
	}
	bus_read(sysfs, device, out);
}

bool sh_rates_alike(const char *sysfs, const char *a, const char *b)
{
	static const char *const files[] = { "hca_type", "board_id", "ports/1/link_layer" };
	char of_a[TEXT], of_b[TEXT];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		text_of(sysfs, a, files[i], of_a);
		text_of(sysfs, b, files[i], of_b);
		if (strcmp(of_a, of_b))
			return false;
	}
	return text_of(sysfs, a, "hca_type", of_a);
}
