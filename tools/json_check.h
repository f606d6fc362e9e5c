/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOLS_JSON_CHECK_H
#define TOOLS_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * True if the text is one JSON object (RFC 8259), with nothing but blanks around it. Escapes are
 * checked, but not whether bytes beyond ASCII are UTF-8, nor whether a name occurs twice.
 */
bool json_check(const char *text, size_t length);

#endif
