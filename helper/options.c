/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "options.h"

#include <string.h>

#include "event-type.h"
#include "grant.h"
#include "util.h"

static int read_scope(sd_bus_message *m, Options *o, sd_bus_error *error) {
        const char *scope;
        int r = sd_bus_message_read(m, "s", &scope);

        if (r < 0)
                return r;
        if (strcmp(scope, "system") == 0)
                o->grant.grants |= RS_GRANT_SYSTEM;
        else if (strcmp(scope, "own") != 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "scope: must be \"own\" or \"system\"");
        return 0;
}

static int read_kernel(sd_bus_message *m, Options *o, sd_bus_error *error) {
        static const char *const words[] =
                {[OPTIONS_KERNEL_NO] = "no", [OPTIONS_KERNEL_QUIET] = "quiet", [OPTIONS_KERNEL_ASK] = "ask"};
        const char *word;
        int r = sd_bus_message_read(m, "s", &word);

        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (strcmp(words[i], word) == 0) {
                        o->kernel = i;
                        return 0;
                }
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "kernel: must be \"no\", \"quiet\" or \"ask\"");
}

static int read_targets(sd_bus_message *m, Options *o, _unused_ sd_bus_error *error) {
        int targets, r;

        r = sd_bus_message_read(m, "b", &targets);
        if (r >= 0 && targets)
                o->grant.grants |= RS_GRANT_TARGETS;
        return r;
}

static int read_ring_size(sd_bus_message *m, Options *o, _unused_ sd_bus_error *error) {
        return sd_bus_message_read(m, "t", &o->grant.ring_size);
}

static int read_table_size(sd_bus_message *m, Options *o, _unused_ sd_bus_error *error) {
        return sd_bus_message_read(m, "t", &o->grant.table_size);
}

static int read_stack_depth(sd_bus_message *m, Options *o, _unused_ sd_bus_error *error) {
        return sd_bus_message_read(m, "u", &o->grant.max_frames);
}

/* a(sbt): name, by period, value. */
static int read_events(sd_bus_message *m, Options *o, sd_bus_error *error) {
        struct rs_grant *grant = &o->grant;
        const char *name;
        uint64_t value;
        int by_period, r;

        r = sd_bus_message_enter_container(m, 'a', "(sbt)");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "(sbt)", &name, &by_period, &value)) > 0) {
                const EventType *type = event_type_by_name(name);

                if (!type)
                        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
                                                 "events: no such event; ListEvents has all there are");
                if (grant->nr_events >= RS_EVENTS_MAX)
                        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "events: more than %d",
                                                 RS_EVENTS_MAX);
                grant->events[grant->nr_events++] =
                        (struct rs_event){.id = type->id, .by_period = by_period, .value = value};
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static const struct {
        const char *key;
        const char *signature;
        int (*func)(sd_bus_message *m, Options *o, sd_bus_error *error);
} options[] = {
        {"scope", "s", read_scope},
        {"kernel", "s", read_kernel},
        {"targets", "b", read_targets},
        {"events", "a(sbt)", read_events},
        {"ring-size", "t", read_ring_size},
        {"table-size", "t", read_table_size},
        {"stack-depth", "u", read_stack_depth},
};

static int read_option(sd_bus_message *m, Options *o, unsigned *seen, sd_bus_error *error) {
        const char *key;
        int r = sd_bus_message_read(m, "s", &key);

        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(options); i++) {
                if (strcmp(options[i].key, key) != 0)
                        continue;
                if (*seen & (1U << i))
                        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%s: given twice", options[i].key);
                *seen |= 1U << i;
                r = sd_bus_message_enter_container(m, 'v', options[i].signature);
                if (r < 0)
                        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "%s: must be of type %s",
                                                 options[i].key, options[i].signature);
                r = options[i].func(m, o, error);
                return r < 0 ? r : sd_bus_message_exit_container(m);
        }
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
                                 "unknown option; there are scope, kernel, targets, events, ring-size, table-size and stack-depth");
}

int options_read(sd_bus_message *m, Options *ret, sd_bus_error *ret_error) {
        Options o = {.kernel = OPTIONS_KERNEL_NO};
        unsigned seen = 0;
        const char *problem;
        int r;

        grant_init(&o.grant);
        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0)
                if ((r = read_option(m, &o, &seen, ret_error)) >= 0)
                        r = sd_bus_message_exit_container(m);
        if (r < 0 || (r = sd_bus_message_exit_container(m)) < 0)
                return r;
        problem = grant_check(&o.grant);
        if (problem)
                return sd_bus_error_setf(ret_error, SD_BUS_ERROR_INVALID_ARGS, "%s", problem);
        *ret = o;
        return 0;
}
