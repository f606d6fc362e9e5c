/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Faults of a PCI function as hardware and firmware make them. A fault is a word, with a number
 * behind "=" where the word wants one:
 *
 *   port-down, port-up       the cable: the state, and the port's event
 *   syndrome=N               a syndrome in the health buffer, which nobody has to act upon
 *   fatal, fatal=N           the same with the flag that asks for a reset (N: 1 by default)
 *   disabled                 the firmware has switched its interface off
 *   hang, resume             no command is executed, the heart stands still; "resume" ends it
 *   slow=MS                  each command waits so long; 0: no longer
 *   command-timeout=MS       the driver's from its next start on: no fault, but how long one lasts
 *   reset-timeout=MS         likewise: how long the driver waits for a function that reads as ones
 *   lose-events              no EQE is written, so no completion of a command is told
 *   lose-interrupts          EQEs are written, interrupts are not sent
 *   heal                     ends hang, slow, lose-events and lose-interrupts
 *   dead, alive              reads give ones, no access to memory; back as from power-on
 *   stray-read=N, stray-write=N   the data path reads or writes (ones) 8 bytes at a DMA address
 *                            that nobody gave it; without an IOMMU that is the guest's memory
 *   event=TYPE, event=TYPE.SUBTYPE   any event, without data
 */
#ifndef SIMNIC_PCI_FAULT_H
#define SIMNIC_PCI_FAULT_H

struct sn_pci;

/*
 * Makes a fault now. 0; -EINVAL: no such word, or not with such a number. Called with the machine's
 * lock.
 */
int sn_pci_fault(struct sn_pci *pci, const char *word);

#endif
