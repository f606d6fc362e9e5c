/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The settings that SHIFT is given: SHIFT_* of the environment, and behind it the same names in
 * /etc/shift.conf (docs/man/shift.conf.5), lines of NAME = VALUE. Read once, when first asked.
 */
#ifndef SHIFTLIB_SETTINGS_H
#define SHIFTLIB_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns a setting's value, or NULL if it is not set or empty. A value from the environment is
 * the environment's own memory, which programs overwrite: copy what is kept. A setuid program's
 * environment is not believed; the file is root's, and is. Any thread.
 */
const char *sh_setting(const char *name);

/* True if there is a setting of that name. SHIFT_CONF, which names the file, is none of them. */
bool sh_setting_known(const char *name);

/* Returns the name of the i-th setting, from 0; NULL behind the last. */
const char *sh_setting_name(size_t i);

/* Reads all settings, and logs what is wrong with them, as at the start of SHIFT (config.c). */
void sh_settings_judge(void);

/*
 * May this process be protected? Not if SHIFT_DISABLE says so. Where the library stands in for the
 * system's own, which every verbs program loads, only if SHIFT_PROGRAMS names the program, or
 * SHIFT_ENABLE is set; where it was brought in by its private directory, always.
 */
bool sh_settings_wanted(void);

/* The file, whether it was read, and what is wrong with it: lines, "" if nothing is. */
const char *sh_settings_file(bool *read, const char **complaints);

/*
 * True if list, names or patterns (fnmatch) with blanks or commas between them, has the program
 * whose file is exe (absolute) and that was called as name. A pattern with a slash is held
 * against the path.
 */
bool sh_settings_match(const char *list, const char *exe, const char *name);

#endif
