/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * News that run upwards: what a folder tells to those above it, which it must not include. Each is
 * sent by the folder that its section names and answered by one function above (named behind it).
 * Lock held, but where it says otherwise.
 */
#ifndef SHIFTLIB_NEWS_H
#define SHIFTLIB_NEWS_H

#endif
