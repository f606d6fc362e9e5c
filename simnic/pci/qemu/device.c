/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A PCI function of simnic as a device of QEMU. The shared object is preloaded into Debian's own
 * QEMU, whose binary exports what is used here; a constructor registers the type before main().
 *
 * All entries hold QEMU's big lock: accesses of the guest's CPUs, timers, properties.
 */
#include "simnic/pci/qemu/device.h"

#include <hw/boards.h>
#include <hw/pci/msix.h>
#include <hw/pci/pcie.h>
#include <hw/pci/pcie_aer.h>
#include <hw/qdev-properties.h>
#include <qapi/error.h>
#include <qemu/main-loop.h>
#include <qemu/module.h>

#include "simnic/pci/fault.h"

enum {
	MELLANOX = 0x15b3,
	CONNECTX_5 = 0x1017,
	SUBSYSTEM = 0x0007,
	CLASS_INFINIBAND = 0x0207,
	CAP_EXPRESS = 0x60,
	CAP_MSIX = 0x9c,
	CAP_AER = 0x100,
	MSIX_TABLE = 0x8000,
	MSIX_PENDING = 0xc000,
};

static struct sn_qemu *to_dev(void *object)
{
	return OBJECT_CHECK(struct sn_qemu, object, SN_QEMU_TYPE);
}

static void dma_read(void *self, uint64_t at, void *to, uint32_t bytes)
{
	struct sn_qemu *dev = self;

	pci_dma_read(&dev->parent, at, to, bytes);
}

static void dma_write(void *self, uint64_t at, const void *from, uint32_t bytes)
{
	struct sn_qemu *dev = self;

	pci_dma_write(&dev->parent, at, from, bytes);
}

static void interrupt(void *self, uint32_t vector)
{
	struct sn_qemu *dev = self;

	msix_notify(&dev->parent, vector);
}

/* What waits already is not put off. */
static void work_in(void *self, uint32_t ms)
{
	struct sn_qemu *dev = self;

	if (!timer_pending(dev->work) || !ms)
		timer_mod(dev->work, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) + ms);
}

static void wake(void *self)
{
	struct sn_qemu *dev = self;

	qemu_bh_schedule(dev->deliver);
}

static void stray(void *self, uint64_t at, bool write)
{
	sn_qemu_report_stray(self, at, write);
}

static void say(void *self, const char *line)
{
	struct sn_qemu *dev = self;

	if (dev->log)
		fprintf(dev->log, "%.6f %s: %s\n", qemu_clock_get_ns(QEMU_CLOCK_REALTIME) / 1e9,
			DEVICE(dev)->id ? DEVICE(dev)->id : "simnic", line);
}

static uint64_t bar_read(void *opaque, hwaddr offset, unsigned size)
{
	return sn_pci_read(((struct sn_qemu *)opaque)->pci, offset, size);
}

static void iseg_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
	sn_pci_write(((struct sn_qemu *)opaque)->pci, offset, value, size);
}

static uint64_t uar_read(void *opaque, hwaddr offset, unsigned size)
{
	return bar_read(opaque, offset + (SN_PCI_UAR_FIRST << 12), size);
}

static void uar_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
	iseg_write(opaque, offset + (SN_PCI_UAR_FIRST << 12), value, size);
}

/* The function takes values as the bus has them, which is the order of a little-endian machine. */
static const MemoryRegionOps iseg_ops = {
	.read = bar_read,
	.write = iseg_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 1, .max_access_size = 8 },
	.impl = { .min_access_size = 1, .max_access_size = 8 },
};

static const MemoryRegionOps uar_ops = {
	.read = uar_read,
	.write = uar_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 1, .max_access_size = 8 },
	.impl = { .min_access_size = 1, .max_access_size = 8 },
};

static void beat(void *opaque)
{
	struct sn_qemu *dev = opaque;

	sn_pci_beat(dev->pci);
	timer_mod(dev->beat, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) + SN_PCI_BEAT_MS);
}

static void work(void *opaque)
{
	sn_pci_work(((struct sn_qemu *)opaque)->pci);
}

static void deliver(void *opaque)
{
	sn_pci_deliver(((struct sn_qemu *)opaque)->pci);
}

/* What the fabric does not say: a MAC address of our own making. */
static struct sn_pci_identity identity_of(const struct sn_qemu *dev)
{
	struct sn_pci_identity identity = {
		.mac = { 0x02, 0xc9, 0, 0x51, dev->host, dev->nic },
		.vhca_id = dev->nic + 1,
		.fw_reset = dev->fw_reset,
	};

	return identity;
}

/* Guest memory, which the data path reaches by itself: of one piece, shared, and a file. */
static bool find_memory(struct sn_pci_nic *nic, Error **error)
{
	MemoryRegion *ram = MACHINE(qdev_get_machine())->ram;

	if (!ram || memory_region_get_fd(ram) < 0) {
		error_setg(error, "guest memory must be a file: -object memory-backend-memfd,"
				  "id=ram,share=on,size=... -machine memory-backend=ram");
		return false;
	}
	nic->ram = memory_region_get_ram_ptr(ram);
	nic->ram_fd = memory_region_get_fd(ram);
	nic->ram_bytes = memory_region_size(ram);
	return true;
}

static bool attach(struct sn_qemu *dev, Error **error)
{
	struct sn_pci_nic nic = {
		.fabric = dev->fabric ? dev->fabric : getenv("SIMNIC_FABRIC"),
		.host = dev->host,
		.nic = dev->nic,
		.iommu = sn_qemu_has_iommu(dev),
	};
	int failed;

	if (!nic.fabric) {
		error_setg(
			error,
			"no fabric: fabric=NAME or SIMNIC_FABRIC=NAME; simnicctl create makes one");
		return false;
	}
	if (!find_memory(&nic, error))
		return false;
	failed = sn_pci_attach(dev->pci, &nic);
	if (failed)
		error_setg_errno(error, -failed, "NIC %u of host %u in fabric %s", dev->nic,
				 dev->host, nic.fabric);
	return !failed;
}

/* BAR 0: the init segment, the MSI-X table, the UAR pages. */
static void make_bar(struct sn_qemu *dev)
{
	uint64_t uars = (uint64_t)SN_PCI_UAR_FIRST << 12;
	uint8_t type = PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64 |
		       PCI_BASE_ADDRESS_MEM_PREFETCH;

	memory_region_init(&dev->bar, OBJECT(dev), "simnic-bar", SN_PCI_BAR_BYTES);
	memory_region_init_io(&dev->iseg, OBJECT(dev), &iseg_ops, dev, "simnic-iseg",
			      SN_PCI_ISEG_BYTES);
	memory_region_init_io(&dev->uars, OBJECT(dev), &uar_ops, dev, "simnic-uars",
			      SN_PCI_BAR_BYTES - uars);
	memory_region_add_subregion(&dev->bar, 0, &dev->iseg);
	memory_region_add_subregion(&dev->bar, uars, &dev->uars);
	pci_register_bar(&dev->parent, 0, type, &dev->bar);
}

static bool make_capabilities(struct sn_qemu *dev, Error **error)
{
	PCIDevice *parent = &dev->parent;

	if (pcie_endpoint_cap_init(parent, CAP_EXPRESS) < 0) {
		error_setg(error, "no room for the PCI Express capability");
		return false;
	}
	if (msix_init(parent, SN_PCI_VECTORS, &dev->bar, 0, MSIX_TABLE, &dev->bar, 0, MSIX_PENDING,
		      CAP_MSIX, error) < 0)
		return false;
	for (uint32_t vector = 0; vector < SN_PCI_VECTORS; vector++)
		msix_vector_use(parent, vector);
	pcie_cap_flr_init(parent);
	pcie_cap_deverr_init(parent); /* the guest may let it report errors */
	return pcie_aer_init(parent, PCI_ERR_VER, CAP_AER, PCI_ERR_SIZEOF, error) >= 0;
}

static bool make_function(struct sn_qemu *dev, Error **error)
{
	struct sn_pci_host host = {
		dev, dma_read, dma_write, interrupt, work_in, wake, stray, say
	};
	struct sn_pci_identity identity = identity_of(dev);

	if (dev->log_name) {
		dev->log = fopen(dev->log_name, "a");
		if (!dev->log) {
			error_setg_errno(error, errno, "%s", dev->log_name);
			return false;
		}
		setvbuf(dev->log, NULL, _IOLBF, 0);
	}
	dev->work = timer_new_ms(QEMU_CLOCK_VIRTUAL, work, dev);
	dev->beat = timer_new_ms(QEMU_CLOCK_VIRTUAL, beat, dev);
	dev->deliver = qemu_bh_new(deliver, dev);
	dev->pci = sn_pci_new(&host, &identity);
	if (!dev->pci) {
		error_setg(error, "no memory");
		return false;
	}
	return attach(dev, error);
}

static void realize(PCIDevice *parent, Error **error)
{
	struct sn_qemu *dev = to_dev(parent);
	uint16_t class;

	if (!make_function(dev, error))
		return;
	class = sn_pci_is_ethernet(dev->pci) ? PCI_CLASS_NETWORK_ETHERNET : CLASS_INFINIBAND;
	pci_config_set_class(parent->config, class);
	make_bar(dev);
	if (!make_capabilities(dev, error))
		return;
	sn_qemu_fill_hole(dev);
	if (sn_qemu_has_iommu(dev))
		sn_qemu_follow_iommu(dev);
	beat(dev);
}

static void unrealize(PCIDevice *parent)
{
	struct sn_qemu *dev = to_dev(parent);

	sn_qemu_leave_iommu(dev);
	msix_uninit(parent, &dev->bar, &dev->bar);
	pcie_aer_exit(parent);
	pcie_cap_exit(parent);
	sn_pci_free(dev->pci); /* until then the data path's thread may wake it */
	qemu_bh_delete(dev->deliver);
	timer_free(dev->beat);
	timer_free(dev->work);
	if (dev->log)
		fclose(dev->log);
}

/* Power-on, hot reset, FLR, and a reset by sysfs. */
static void reset(DeviceState *device)
{
	struct sn_qemu *dev = to_dev(device);

	say(dev, "reset");
	pcie_cap_deverr_reset(&dev->parent);
	sn_pci_bus_master(dev->pci, false);
	sn_pci_reset(dev->pci);
}

/* The data path does not go through QEMU's bus, so it is told what the bus would let pass. */
static void follow_bus_master(struct sn_qemu *dev)
{
	uint16_t command = pci_get_word(dev->parent.config + PCI_COMMAND);

	sn_pci_bus_master(dev->pci, command & PCI_COMMAND_MASTER);
}

static void config_write(PCIDevice *parent, uint32_t at, uint32_t value, int bytes)
{
	if (sn_pci_is_dead(to_dev(parent)->pci))
		return;
	pci_default_write_config(parent, at, value, bytes);
	pcie_cap_flr_write_config(parent, at, value, bytes);
	pcie_aer_write_config(parent, at, value, bytes);
	follow_bus_master(to_dev(parent));
}

static uint32_t config_read(PCIDevice *parent, uint32_t at, int bytes)
{
	struct sn_qemu *dev = to_dev(parent);

	if (sn_pci_is_dead(dev->pci))
		return bytes < 4 ? (1u << 8 * bytes) - 1 : UINT32_MAX;
	return pci_default_read_config(parent, at, bytes);
}

static void bus_master(PCIDevice *parent, bool on)
{
	uint16_t command = pci_get_word(parent->config + PCI_COMMAND);

	command = on ? command | PCI_COMMAND_MASTER : command & ~PCI_COMMAND_MASTER;
	pci_default_write_config(parent, PCI_COMMAND, command, 2);
	follow_bus_master(to_dev(parent));
}

/* The words that need the bus. False: none of them. */
static bool bus_fault(struct sn_qemu *dev, const char *word)
{
	if (!strcmp(word, "surprise")) {
		sn_pci_fault(dev->pci, "dead");
		return sn_qemu_slot(dev, false);
	}
	if (!strcmp(word, "insert")) {
		sn_pci_fault(dev->pci, "alive");
		pci_device_reset(&dev->parent);
		return sn_qemu_slot(dev, true);
	}
	if (!strcmp(word, "bus-master-off") || !strcmp(word, "bus-master-on")) {
		bus_master(&dev->parent, !strcmp(word, "bus-master-on"));
		return true;
	}
	return false;
}

/* qom-set /machine/peripheral/ID fault WORD */
static void set_fault(Object *object, const char *word, Error **error)
{
	struct sn_qemu *dev = to_dev(object);

	if (!dev->pci)
		error_setg(error, "the device is not there yet");
	else if (!bus_fault(dev, word) && sn_pci_fault(dev->pci, word))
		error_setg(error, "no such fault: %s", word);
}

static Property properties[] = {
	DEFINE_PROP_STRING("fabric", struct sn_qemu, fabric),
	DEFINE_PROP_UINT32("host", struct sn_qemu, host, 0),
	DEFINE_PROP_UINT32("nic", struct sn_qemu, nic, 0),
	DEFINE_PROP_STRING("log", struct sn_qemu, log_name),
	DEFINE_PROP_BOOL("fw-reset", struct sn_qemu, fw_reset, false),
	DEFINE_PROP_END_OF_LIST(),
};

/* The object was compiled with headers, and runs in a binary: both must mean the same structs. */
static void check_sizes(void)
{
	if (object_type_get_instance_size(TYPE_PCI_DEVICE) == sizeof(PCIDevice) &&
	    object_type_get_instance_size(TYPE_MEMORY_REGION) == sizeof(MemoryRegion))
		return;
	fprintf(stderr, "simnic: made for another QEMU than this; run "
			"scripts/install-driver-lane.sh and build again\n");
	exit(1);
}

static void class_init(ObjectClass *class, void *data)
{
	PCIDeviceClass *pci = PCI_DEVICE_CLASS(class);
	DeviceClass *device = DEVICE_CLASS(class);

	check_sizes();
	pci->realize = realize;
	pci->exit = unrealize;
	pci->vendor_id = MELLANOX;
	pci->device_id = CONNECTX_5;
	pci->subsystem_vendor_id = MELLANOX;
	pci->subsystem_id = SUBSYSTEM;
	pci->class_id = PCI_CLASS_NETWORK_ETHERNET;
	pci->config_read = config_read;
	pci->config_write = config_write;
	device->reset = reset;
	device->desc = "ConnectX-5 of simnic, for the unmodified mlx5 driver";
	set_bit(DEVICE_CATEGORY_NETWORK, device->categories);
	device_class_set_props(device, properties);
	object_class_property_add_str(class, "fault", NULL, set_fault);
}

static const TypeInfo type = {
	.name = SN_QEMU_TYPE,
	.parent = TYPE_PCI_DEVICE,
	.instance_size = sizeof(struct sn_qemu),
	.class_init = class_init,
	.interfaces = (InterfaceInfo[]){ { INTERFACE_PCIE_DEVICE }, {} },
};

static void register_types(void)
{
	type_register_static(&type);
}

type_init(register_types)
