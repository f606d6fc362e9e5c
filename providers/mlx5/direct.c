/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A search for loaded objects that ask libmlx5 for rings. Objects that look the function up by
 * dlsym() are not seen.
 */
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "providers/mlx5/libmlx5.h"

static const char asks[] = "mlx5dv_init_obj";

struct object {
	const ElfW(Sym) * symbols;
	const char *names;
	const uint32_t *hash, *gnu_hash;
	uint64_t names_size;
};

/* glibc has made most of these addresses absolute; of the vDSO it has not. */
static const void *address_of(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static void object_read(const struct dl_phdr_info *info, const ElfW(Dyn) * dyn, struct object *o)
{
	for (; dyn->d_tag != DT_NULL; dyn++) {
		switch (dyn->d_tag) {
		case DT_SYMTAB: o->symbols = address_of(info, dyn->d_un.d_ptr); break;
		case DT_STRTAB: o->names = address_of(info, dyn->d_un.d_ptr); break;
		case DT_STRSZ: o->names_size = dyn->d_un.d_val; break;
		case DT_HASH: o->hash = address_of(info, dyn->d_un.d_ptr); break;
		case DT_GNU_HASH: o->gnu_hash = address_of(info, dyn->d_un.d_ptr); break;
		default: break;
		}
	}
}

/*
 * The second word of a GNU hash table is the first defined symbol; the undefined ones lie before
 * it.
 */
static uint32_t object_undefined(const struct object *o)
{
	if (o->gnu_hash)
		return o->gnu_hash[1];
	return o->hash ? o->hash[1] : 0;
}

static int object_asks(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object o = { 0 };
	uint32_t i, n;

	(void)size;
	(void)arg;
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object_read(info,
				    (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
				    &o);
	n = o.symbols && o.names ? object_undefined(&o) : 0;
	for (i = 1; i < n; i++)
		if (o.symbols[i].st_shndx == SHN_UNDEF &&
		    o.symbols[i].st_name + sizeof(asks) <= o.names_size &&
		    !memcmp(o.names + o.symbols[i].st_name, asks, sizeof(asks)))
			return 1;
	return 0;
}

static int objects_added(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

/* Searched again when something was loaded. */
bool ring_direct_verbs(void)
{
	static _Atomic unsigned long long
		seen; /* 2 * number of objects loaded at the last search, plus its answer */
	unsigned long long adds = 0, before = atomic_load(&seen);
	bool found;

	dl_iterate_phdr(objects_added, &adds);
	if (before / 2 == adds)
		return before % 2;
	found = dl_iterate_phdr(object_asks, NULL);
	atomic_store(&seen, adds * 2 + found);
	return found;
}
