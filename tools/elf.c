/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The dynamic section of a shared object, read from the file without loading it. Every offset in
 * the file is checked before it is followed.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/shiftctl.h"

#define ELF_NATIVE_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)

/* Our own executable has the machine type that a shared object must have. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

struct elf_dynamic {
	size_t strtab, strsz, soname, verdef, verdefnum;
	bool has_soname;
};

static const void *elf_at(const struct elf_file *elf, size_t offset, size_t len)
{
	if (offset > elf->size || len > elf->size - offset)
		return NULL;
	return (const char *)elf->map + offset;
}

static const ElfW(Phdr) * elf_phdr(const struct elf_file *elf, unsigned i)
{
	const ElfW(Ehdr) *eh = elf->map;

	if (i >= eh->e_phnum || eh->e_phentsize != sizeof(ElfW(Phdr)))
		return NULL;
	return elf_at(elf, eh->e_phoff + i * sizeof(ElfW(Phdr)), sizeof(ElfW(Phdr)));
}

/* Addresses in the dynamic section are those of the loaded object; the file has it elsewhere. */
static size_t elf_offset(const struct elf_file *elf, size_t addr)
{
	const ElfW(Phdr) * ph;

	for (unsigned i = 0; (ph = elf_phdr(elf, i)); i++)
		if (ph->p_type == PT_LOAD && addr >= ph->p_vaddr &&
		    addr - ph->p_vaddr < ph->p_filesz)
			return addr - ph->p_vaddr + ph->p_offset;
	return SIZE_MAX;
}

static const char *elf_string(const struct elf_file *elf, const struct elf_dynamic *dyn,
			      size_t offset)
{
	const char *text;

	if (offset >= dyn->strsz)
		return NULL;
	text = elf_at(elf, elf_offset(elf, dyn->strtab) + offset, 1);
	if (!text || !elf_at(elf, elf_offset(elf, dyn->strtab), dyn->strsz))
		return NULL;
	return memchr(text, '\0', dyn->strsz - offset) ? text : NULL;
}

static bool elf_header_ok(const struct elf_file *elf)
{
	const ElfW(Ehdr) *eh = elf_at(elf, 0, sizeof(*eh));

	return eh && !memcmp(eh->e_ident, ELFMAG, SELFMAG) &&
	       eh->e_ident[EI_CLASS] == ELF_NATIVE_CLASS && eh->e_type == ET_DYN &&
	       eh->e_machine == __ehdr_start.e_machine;
}

static const ElfW(Dyn) * elf_dynamic_section(const struct elf_file *elf, size_t *n)
{
	const ElfW(Phdr) * ph;

	for (unsigned i = 0; (ph = elf_phdr(elf, i)); i++) {
		if (ph->p_type != PT_DYNAMIC)
			continue;
		*n = ph->p_filesz / sizeof(ElfW(Dyn));
		return elf_at(elf, ph->p_offset, *n * sizeof(ElfW(Dyn)));
	}
	return NULL;
}

static void elf_read_tag(const ElfW(Dyn) * d, struct elf_dynamic *dyn)
{
	switch (d->d_tag) {
	case DT_STRTAB: dyn->strtab = d->d_un.d_ptr; break;
	case DT_STRSZ: dyn->strsz = d->d_un.d_val; break;
	case DT_VERDEF: dyn->verdef = d->d_un.d_ptr; break;
	case DT_VERDEFNUM: dyn->verdefnum = d->d_un.d_val; break;
	case DT_SONAME:
		dyn->soname = d->d_un.d_val;
		dyn->has_soname = true;
		break;
	default: break;
	}
}

static void elf_read_nodes(struct elf_file *elf, const struct elf_dynamic *dyn)
{
	size_t at = elf_offset(elf, dyn->verdef);
	const ElfW(Verdaux) * aux;
	const ElfW(Verdef) * def;
	const char *name;

	for (size_t i = 0; i < dyn->verdefnum && elf->n_nodes < ELF_MAX_NODES; i++) {
		def = elf_at(elf, at, sizeof(*def));
		aux = def ? elf_at(elf, at + def->vd_aux, sizeof(*aux)) : NULL;
		if (!aux)
			return;
		name = elf_string(elf, dyn, aux->vda_name);
		if (name && !(def->vd_flags & VER_FLG_BASE))
			elf->node[elf->n_nodes++] = name;
		if (!def->vd_next)
			return;
		at += def->vd_next;
	}
}

static int elf_parse(struct elf_file *elf)
{
	struct elf_dynamic dyn = { 0 };
	const ElfW(Dyn) * d;
	const char *name;
	size_t n = 0;

	if (!elf_header_ok(elf))
		return -ENOEXEC;
	d = elf_dynamic_section(elf, &n);
	if (!d)
		return -ENOEXEC;
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
		elf_read_tag(&d[i], &dyn);
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		name = d[i].d_tag == DT_NEEDED ? elf_string(elf, &dyn, d[i].d_un.d_val) : NULL;
		if (name && elf->n_needed < ELF_MAX_NEEDED)
			elf->needed[elf->n_needed++] = name;
	}
	if (dyn.has_soname)
		elf->soname = elf_string(elf, &dyn, dyn.soname);
	if (dyn.verdef)
		elf_read_nodes(elf, &dyn);
	return 0;
}

static int elf_map(const char *path, struct elf_file *elf)
{
	struct stat st;
	int fd, rc = 0;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || !st.st_size)
		rc = -ENOEXEC;
	if (!rc) {
		elf->size = (size_t)st.st_size;
		elf->map = mmap(NULL, elf->size, PROT_READ, MAP_PRIVATE, fd, 0);
		rc = elf->map == MAP_FAILED ? -errno : 0;
	}
	close(fd);
	return rc;
}

int elf_open(const char *path, struct elf_file *out)
{
	int rc;

	memset(out, 0, sizeof(*out));
	rc = elf_map(path, out);
	if (rc)
		return rc;
	rc = elf_parse(out);
	if (rc)
		elf_close(out);
	return rc;
}

void elf_close(struct elf_file *elf)
{
	munmap(elf->map, elf->size);
}

bool elf_needs(const struct elf_file *elf, const char *soname)
{
	for (unsigned i = 0; i < elf->n_needed; i++)
		if (!strcmp(elf->needed[i], soname))
			return true;
	return false;
}

bool elf_has_node(const struct elf_file *elf, const char *name)
{
	for (unsigned i = 0; i < elf->n_nodes; i++)
		if (!strcmp(elf->node[i], name))
			return true;
	return false;
}
