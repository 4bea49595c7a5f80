/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The options of OpenSession, a closed set: unknown keys, wrong types and values out of range are
 * refused. docs/dbus.md lists them.
 */

#include <systemd/sd-bus.h>

#include "protocol.h"

/*
 * Reads a{sv} from the message into a grant, without the uid. Returns 0, or -EINVAL with *ret_error
 * set to org.freedesktop.DBus.Error.InvalidArgs.
 */
int options_read(sd_bus_message *m, struct rs_grant *ret, sd_bus_error *ret_error);
