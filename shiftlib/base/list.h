/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A circular doubly linked list; the owner says what guards it. */
#ifndef SHIFTLIB_LIST_H
#define SHIFTLIB_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *next, *prev;
};

static inline void list_init(struct list_node *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list_node *head)
{
	return head->next == head;
}

static inline void list_add_tail(struct list_node *head, struct list_node *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_del(struct list_node *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

#define list_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

/* `type *item` must be declared by the caller; safe against removal of item itself. */
#define list_for_each(head, item, type, member)                                                    \
	for (struct list_node *_n = (head)->next, *_t = _n->next;                                  \
	     _n != (head) && (item = list_entry(_n, type, member), true); _n = _t, _t = _n->next)

#endif
