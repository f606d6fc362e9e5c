/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Counters of the PCI function, as the driver asks for them, and what the NIC's agent answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "simnic/pci/command.h"
#include "simnic/pci/field.h"
#include "tests/unit/simnic/pci_driver.h"
#include "tests/unit/simnic/pci_fake_bridge.h"

enum {
	MAD_IFC = 0x50d,
	QUERY_VPORT_COUNTER = 0x770,
	QUERY_Q_COUNTER = 0x773,
	ACCESS_REG = 0x805,
	READ = 1,
	PPCNT = 0x5008,
	IB_GROUP = 0x20,
	ETHERNET_GROUP = 0,
	MAD_BYTES = 16 + 256,
	ATTRIBUTE = 0x1d,
};

static struct driver driver;

static void begin(bool ethernet)
{
	struct sn_pci_nic nic = { .fabric = "f", .host = 1, .nic = 2 };

	memset(&fake_bridge, 0, sizeof(fake_bridge));
	fake_bridge.port.ethernet = ethernet;
	fake_bridge.count = 1000;
	driver_start(&driver, ethernet);
	assert_int_equal(sn_pci_attach(driver.pci, &nic), 0);
	driver_set_queue(&driver);
}

static int start(void **state)
{
	begin(false);
	return 0;
}

static int finish(void **state)
{
	driver_stop(&driver);
	return 0;
}

static uint64_t expected(const char *file)
{
	return fake_bridge.count + strlen(file);
}

static uint8_t *traffic(bool ethernet)
{
	return ethernet ? SN_AT(query_vport_counter_out, driver.out, transmitted_eth_unicast)
			: SN_AT(query_vport_counter_out, driver.out, transmitted_ib_unicast);
}

static void check_traffic(bool ethernet)
{
	assert_int_equal(driver_command(&driver, QUERY_VPORT_COUNTER, 0, 32, 0x210), SN_OK);
	assert_int_equal(SN_GET(traffic_counter, traffic(ethernet), packets),
			 expected("counters/port_xmit_packets"));
	assert_int_equal(SN_GET(traffic_counter, traffic(ethernet), octets),
			 4 * expected("counters/port_xmit_data"));
	assert_int_equal(SN_GET(traffic_counter, traffic(!ethernet), packets), 0);
}

static void traffic_is_told_by_the_link_layer(void **state)
{
	check_traffic(false);
	driver_stop(&driver);
	begin(true);
	check_traffic(true);
}

static void queue_pairs_have_counters(void **state)
{
	assert_int_equal(driver_command(&driver, QUERY_Q_COUNTER, 0, 32, 0x100), SN_OK);
	assert_int_equal(SN_GET(query_q_counter_out, driver.out, out_of_sequence),
			 expected("hw_counters/out_of_sequence"));
	assert_int_equal(SN_GET(query_q_counter_out, driver.out, req_transport_retries_exceeded),
			 expected("hw_counters/req_transport_retries_exceeded"));
}

static const uint8_t *port_counters(uint32_t group)
{
	uint8_t *asked = SN_AT(access_register_in, driver.in, register_data);

	SN_SET(access_register_in, driver.in, register_id, PPCNT);
	SN_SET(ppcnt_reg, asked, local_port, 1);
	SN_SET(ppcnt_reg, asked, grp, group);
	assert_int_equal(driver_command(&driver, ACCESS_REG, READ, 272, 272), SN_OK);
	return SN_AT(ppcnt_reg, SN_AT(access_register_out, driver.out, register_data), counter_set);
}

static void narrow_counters_stay_at_their_end(void **state)
{
	const uint8_t *counters = port_counters(IB_GROUP);

	assert_int_equal(SN_GET(ib_port_cntrs_grp_data_layout, counters, link_downed_counter), 255);
	assert_int_equal(SN_GET(ib_port_cntrs_grp_data_layout, counters, port_rcv_errors),
			 expected("counters/port_rcv_errors"));
	fake_bridge.count = 1 << 20;
	counters = port_counters(IB_GROUP);
	assert_int_equal(SN_GET(ib_port_cntrs_grp_data_layout, counters, port_rcv_errors), 0xffff);
	assert_int_equal(SN_GET(ib_port_cntrs_grp_data_layout, counters, port_xmit_wait),
			 expected("counters/port_xmit_wait"));
}

static void a_group_that_is_not_kept_is_zeros(void **state)
{
	const uint8_t *counters = port_counters(ETHERNET_GROUP);

	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(counters[i], 0);
}

static void the_agent_answers_datagrams(void **state)
{
	uint8_t *asked = SN_AT(mad_ifc_in, driver.in, mad);
	const uint8_t *answer = SN_AT(mad_ifc_out, driver.out, response_mad_packet);

	asked[17] = ATTRIBUTE;
	fake_bridge.agent = true;
	assert_int_equal(driver_command(&driver, MAD_IFC, 3, MAD_BYTES, MAD_BYTES), SN_OK);
	assert_int_equal(answer[65], ATTRIBUTE);
	fake_bridge.agent = false;
	assert_int_equal(driver_command(&driver, MAD_IFC, 3, MAD_BYTES, MAD_BYTES), SN_BAD_PARAM);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(traffic_is_told_by_the_link_layer), CASE(queue_pairs_have_counters),
		CASE(narrow_counters_stay_at_their_end), CASE(a_group_that_is_not_kept_is_zeros),
		CASE(the_agent_answers_datagrams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
