/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shiftlib/base/date.h"
#include "shiftlib/base/util.h"

#define DATE_DAY_S 86400u

uint64_t sh_date_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * SH_NS_PER_S + (uint64_t)t.tv_nsec;
}

static unsigned int date_leap(unsigned int year)
{
	return (year % 4 == 0 && year % 100) || year % 400 == 0;
}

static unsigned int date_month_days(unsigned int year, unsigned int month)
{
	static const uint8_t days[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month] + (month == 1 ? date_leap(year) : 0);
}

/* Backwards from the end, with leading zeros. */
static char *date_digits(char *end, uint64_t value, unsigned int digits)
{
	while (digits--) {
		*--end = (char)('0' + value % 10);
		value /= 10;
	}
	return end;
}

void sh_date_print(uint64_t ns, char out[SH_DATE_MAX])
{
	uint64_t seconds = ns / SH_NS_PER_S, days = seconds / DATE_DAY_S;
	unsigned int year = 1970, month = 0, of_day = (unsigned int)(seconds % DATE_DAY_S);
	char *at = out + 27;

	for (; days >= 365 + date_leap(year); year++)
		days -= 365 + date_leap(year);
	for (; days >= date_month_days(year, month); month++)
		days -= date_month_days(year, month);
	*at = 0;
	*--at = 'Z';
	at = date_digits(at, ns % SH_NS_PER_S / SH_NS_PER_US, 6);
	*--at = '.';
	at = date_digits(at, of_day % 60, 2);
	*--at = ':';
	at = date_digits(at, of_day / 60 % 60, 2);
	*--at = ':';
	at = date_digits(at, of_day / 3600, 2);
	*--at = 'T';
	at = date_digits(at, days + 1, 2);
	*--at = '-';
	at = date_digits(at, month + 1, 2);
	*--at = '-';
	date_digits(at, year, 4);
}
