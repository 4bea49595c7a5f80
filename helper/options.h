/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The options of OpenSession, a closed set: unknown keys, wrong types and values out of range are
 * refused. docs/dbus.md lists them.
 */

#include <systemd/sd-bus.h>

#include "protocol.h"

/* What polkit is to be asked about kernel frames, which a session can do without. */
enum OptionsKernel {
        OPTIONS_KERNEL_NO,
        OPTIONS_KERNEL_QUIET, /* without a question to anybody */
        OPTIONS_KERNEL_ASK,   /* with one, where the call allows it */
};

typedef struct Options {
        struct rs_grant grant; /* without the uid, and without kernel frames */
        enum OptionsKernel kernel;
} Options;

/* Reads a{sv}. Returns 0, or -EINVAL with *ret_error set to org.freedesktop.DBus.Error.InvalidArgs. */
int options_read(sd_bus_message *m, Options *ret, sd_bus_error *ret_error);
