/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "kvclient/kv.h"
#include "shiftlib/base/config.h"
#include "shiftlib/base/log.h"
#include "shiftlib/base/settings.h"
#include "shiftlib/base/util.h"

/* A copy: programs overwrite their environment, for a process title for one. */
static const char *config_text(const char *name)
{
	const char *text = sh_setting(name);

	return text && *text ? strdup(text) : NULL;
}

/* Says what is wrong with it and takes the default. */
static uint64_t config_number(const char *name, const char *of, uint64_t fallback, uint64_t min,
			      uint64_t max)
{
	const char *text = sh_setting(name);
	unsigned long long value;
	char *end;

	if (!text || !*text)
		return fallback;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < min || value > max) {
		sh_log(SH_LOG_ERROR,
		       "%s='%s' is not a number of %s from %llu to %llu; "
		       "using %llu",
		       name, text, of, (unsigned long long)min, (unsigned long long)max,
		       (unsigned long long)fallback);
		return fallback;
	}
	return value;
}

static uint64_t config_ms(const char *name, uint64_t fallback, uint64_t min, uint64_t max)
{
	return config_number(name, "milliseconds", fallback, min, max);
}

static bool config_on(const char *name, bool fallback)
{
	const char *text = sh_setting(name);

	if (!text || !*text)
		return fallback;
	if (!strcmp(text, "on") || !strcmp(text, "1"))
		return true;
	if (!strcmp(text, "off") || !strcmp(text, "0"))
		return false;
	sh_log(SH_LOG_ERROR, "%s='%s' is neither on nor off; using %s", name, text,
	       fallback ? "on" : "off");
	return fallback;
}

static bool config_trust_unplaced(void)
{
	const char *text = sh_setting("SHIFT_UNPLACED");

	if (text && *text && strcmp(text, "end") && strcmp(text, "trust"))
		sh_log(SH_LOG_ERROR, "SHIFT_UNPLACED='%s' is neither end nor trust; using end",
		       text);
	return text && !strcmp(text, "trust");
}

static void config_read_atomics(struct sh_config *config)
{
	const char *text = sh_setting("SHIFT_ATOMICS");

	config->atomics_owner = text && !strcmp(text, "owner");
	config->atomics_uid = text && !strcmp(text, "uid");
	if (text && *text && strcmp(text, "end") && !config->atomics_owner && !config->atomics_uid)
		sh_log(SH_LOG_ERROR, "SHIFT_ATOMICS='%s' is neither end, owner nor uid; using end",
		       text);
}

static enum sh_atomic_home config_atomic_home(void)
{
	const char *text = sh_setting("SHIFT_ATOMIC_HOME");

	if (text && !strcmp(text, "fixed"))
		return SH_ATOMIC_HOME_FIXED;
	return config_on("SHIFT_ATOMIC_HOME", true) ? SH_ATOMIC_HOME_ON : SH_ATOMIC_HOME_OFF;
}

/* True for a name that can be a part of a file's name. */
static bool config_is_name(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-";

	return strlen(text) <= SH_ATOMIC_GROUP_MAX && strspn(text, letters) == strlen(text);
}

/* Processes that share memory under atomics: each of them must know of the others' moves. */
static void config_read_atomic_group(struct sh_config *config)
{
	config->atomic_group = config_text("SHIFT_ATOMIC_GROUP");
	if (!config->atomic_group)
		return;
	if (!config_is_name(config->atomic_group)) {
		sh_log(SH_LOG_ERROR,
		       "SHIFT_ATOMIC_GROUP='%s' is no name of at most %d letters, digits, _ and -; "
		       "using none",
		       config->atomic_group, SH_ATOMIC_GROUP_MAX);
		config->atomic_group = NULL;
	} else if (config->atomic_home != SH_ATOMIC_HOME_ON) {
		sh_log(SH_LOG_ERROR,
		       "SHIFT_ATOMIC_GROUP=%s goes with SHIFT_ATOMIC_HOME=on only; using on",
		       config->atomic_group);
		config->atomic_home = SH_ATOMIC_HOME_ON;
	}
}

/* Unless it is turned off: where a NIC has shown that what it tells is true. */
static bool config_exact(void)
{
	const char *text = sh_setting("SHIFT_EXACT");

	if (text && *text && strcmp(text, "auto") && strcmp(text, "off"))
		sh_log(SH_LOG_ERROR, "SHIFT_EXACT='%s' is neither auto nor off; using auto", text);
	return !text || strcmp(text, "off");
}

static void config_read_lazy(struct sh_config *config)
{
	const char *text = sh_setting("SHIFT_LAZY");

	config->pool = text && !strcmp(text, "pool");
	config->core.lazy = config->pool || config_on("SHIFT_LAZY", false);
}

static const char *config_job(void)
{
	const char *job = config_text("SHIFT_JOB"), *from;
	char name[KV_PREFIX_MAX];

	if (job)
		return job;
	from = kv_job_default(name, sizeof(name));
	if (!from)
		return NULL;
	sh_log(SH_LOG_INFO, "the job is %s, by %s", name, from);
	return strdup(name);
}

/* The limits hold what path.h promises: packets a second, and pings before a path is lost. */
static void config_read_path(struct sh_path_config *path, uint64_t lifetime_ns)
{
	uint64_t beat_ms = config_ms("SHIFT_HEARTBEAT_MS", 50, 42, 10000);
	uint64_t least_ms = beat_ms * 3 / 2, loss_ms = beat_ms * 4;

	path->heartbeat = config_on("SHIFT_HEARTBEAT", true);
	path->beat_ns = beat_ms * SH_NS_PER_MS;
	path->loss_ns =
		config_ms("SHIFT_HEARTBEAT_LOSS_MS", loss_ms, least_ms, 600000) * SH_NS_PER_MS;
	path->idle_ns = config_ms("SHIFT_HEARTBEAT_IDLE_MS", 10000, 1000, 3600000) * SH_NS_PER_MS;
	path->probe_min_ns = 20 * SH_NS_PER_MS;
	path->probe_max_ns = SH_NS_PER_S;
	path->hold_min_ns = config_ms("SHIFT_HOLDDOWN_MS", 1000, 0, 3600000) * SH_NS_PER_MS;
	if (path->hold_min_ns < lifetime_ns)
		path->hold_min_ns = lifetime_ns;
	path->hold_max_ns = config_ms("SHIFT_HOLDDOWN_MAX_MS", 120000, 0, 3600000) * SH_NS_PER_MS;
	if (path->hold_max_ns < path->hold_min_ns)
		path->hold_max_ns = path->hold_min_ns;
	path->calm_ns = config_ms("SHIFT_CALM_MS", 60000, 100, 86400000) * SH_NS_PER_MS;
}

static enum sh_gray_mode config_gray_mode(void)
{
	static const char *const names[] = {
		[SH_GRAY_OFF] = "off", [SH_GRAY_WATCH] = "watch", [SH_GRAY_ON] = "on"
	};
	const char *text = sh_setting("SHIFT_GRAY");
	int mode;

	for (mode = SH_GRAY_OFF; text && *text && mode <= SH_GRAY_ON; mode++)
		if (!strcmp(text, names[mode]))
			return (enum sh_gray_mode)mode;
	if (text && *text)
		sh_log(SH_LOG_ERROR, "SHIFT_GRAY='%s' is neither off, watch nor on; using watch",
		       text);
	return SH_GRAY_WATCH;
}

static void config_read_gray(struct sh_config *config)
{
	struct sh_gray_config *rules = &config->gray.rules;

	config->gray.mode = config_gray_mode();
	rules->look_ns = config_ms("SHIFT_GRAY_LOOK_MS", 500, 100, 60000) * SH_NS_PER_MS;
	rules->least = (uint32_t)config_number("SHIFT_GRAY_LEAST", "errors", 8, 1, 1000000);
	rules->per_million =
		(uint32_t)config_number("SHIFT_GRAY_PER_MILLION", "packets", 100, 1, 1000000);
	rules->hold_min_ns = config_ms("SHIFT_GRAY_HOLD_MS", 60000, 1000, 86400000) * SH_NS_PER_MS;
	rules->hold_max_ns =
		config_ms("SHIFT_GRAY_HOLD_MAX_MS", 3600000, 1000, 86400000) * SH_NS_PER_MS;
	if (rules->hold_max_ns < rules->hold_min_ns)
		rules->hold_max_ns = rules->hold_min_ns;
	rules->calm_ns = 10 * rules->hold_min_ns;
}

static void config_read_on_event(struct sh_on_event_config *on_event)
{
	on_event->command = config_text("SHIFT_ON_EVENT");
	on_event->kinds = config_text("SHIFT_ON_EVENT_KINDS");
	on_event->timeout_ns =
		config_ms("SHIFT_ON_EVENT_TIMEOUT_MS", 30000, 100, 3600000) * SH_NS_PER_MS;
}

void sh_settings_judge(void)
{
	struct sh_config config = { 0 };

	(void)sh_log_enabled(SH_LOG_ERROR); /* the log's own settings */
	sh_config_read(&config);
}

void sh_config_read(struct sh_config *config)
{
	config->kv_url = config_text("SHIFT_KV");
	config->backup = config_text("SHIFT_BACKUP");
	config->engine = config_text("SHIFT_ENGINE");
	config->kv_password_file = config_text("SHIFT_KV_PASSWORD_FILE");
	config->secret_file = config_text("SHIFT_SECRET_FILE");
	config->job = config_job();
	config->stats = config_text("SHIFT_STATS");
	config->run_dir = config_text("SHIFT_RUN_DIR");
	config->kv_timeout_ms = (unsigned int)config_ms("SHIFT_KV_TIMEOUT_MS", 1000, 10, 60000);
	config->lease_ms = (unsigned int)config_ms("SHIFT_LEASE_MS", 60000, 1000, 3600000);
	config->watch_ns = config_ms("SHIFT_WATCH_MS", 20, 1, 10000) * SH_NS_PER_MS;
	config->yield_ns = config_ms("SHIFT_YIELD_MS", 30000, 100, 3600000) * SH_NS_PER_MS;
	config->flush_wait_ns = config_ms("SHIFT_FLUSH_WAIT_MS", 200, 1, 60000) * SH_NS_PER_MS;
	sc_config_default(&config->core);
	config->core.exact = config_exact();
	config_read_lazy(config);
	config->core.silence_ns =
		config_ms("SHIFT_SILENCE_MS", config->core.silence_ns / SH_NS_PER_MS, 10, 600000) *
		SH_NS_PER_MS;
	config->core.limit_ns = config_ms("SHIFT_DEADLINE_MS", 0, 0, 3600000) * SH_NS_PER_MS;
	config->core.retry_stretch = (uint32_t)config_number("SHIFT_RETRY_STRETCH", "times",
							     config->core.retry_stretch, 1, 16);
	config->core.packet_lifetime_ns =
		config_ms("SHIFT_PACKET_LIFETIME_MS",
			  config->core.packet_lifetime_ns / SH_NS_PER_MS, 0, 60000) *
		SH_NS_PER_MS;
	config_read_path(&config->path, config->core.packet_lifetime_ns);
	config_read_on_event(&config->on_event);
	config_read_gray(config);
	config->trust_unplaced = config_trust_unplaced();
	config_read_atomics(config);
	config->atomic_home = config_atomic_home();
	config_read_atomic_group(config);
	config->wqe_log =
		(uint32_t)config_number("SHIFT_WQE_LOG", "requests", 0, 0, SH_WQE_LOG_MAX);
	config->any_vlan = config_on("SHIFT_ANY_VLAN", false);
	config->push = config_on("SHIFT_PUSH", true);
	config->crash_note = config_on("SHIFT_CRASH_NOTE", true);
	config->hold_hung = config_on("SHIFT_HOLD_HUNG", true);
	config->hang.send_ns = config_ms("SHIFT_HANG_MS", 200, 10, 600000) * SH_NS_PER_MS;
	config->hang.command_ns = config_ms("SHIFT_COMMAND_MS", 400, 10, 600000) * SH_NS_PER_MS;
	/* base/variables.c asks for these, here they are only judged */
	(void)config_on("SHIFT_ENV", true);
	(void)config_on("SHIFT_LL128", false);
}
