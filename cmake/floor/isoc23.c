/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The names under which headers since glibc 2.38 call strtol() and its kin. They differ from the
 * older ones in "0b101" alone, which nothing of ours reads. Hidden, as stat.c.
 */
#include <stdarg.h>

/* By their old names, whatever the headers here make of them. */
long before_strtol(const char *text, char **end, int base) __asm__("strtol");
unsigned long before_strtoul(const char *text, char **end, int base) __asm__("strtoul");
long long before_strtoll(const char *text, char **end, int base) __asm__("strtoll");
unsigned long long before_strtoull(const char *text, char **end, int base) __asm__("strtoull");
int before_vsscanf(const char *text, const char *format, va_list args) __asm__("vsscanf");

long __isoc23_strtol(const char *text, char **end, int base)
{
	return before_strtol(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
	return before_strtoul(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base)
{
	return before_strtoll(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
	return before_strtoull(text, end, base);
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = before_vsscanf(text, format, args);
	va_end(args);
	return n;
}
