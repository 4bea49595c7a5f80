/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A helper whose refusals tell, besides what is wrong, where the kernel is: as an error text of the verifier's
 * would that is passed on. For tests/leak.
 */

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>

int __wrap_sd_bus_error_setf(sd_bus_error *e, const char *name, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static uint64_t stext;

/* Before main() gives up what it takes to see it. */
static __attribute__((constructor)) void find_stext(void) {
        char line[256], symbol[128];
        uint64_t address;
        FILE *f = fopen("/proc/kallsyms", "re");

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "%" SCNx64 " %*c %127s", &address, symbol) == 2 && strcmp(symbol, "_stext") == 0)
                        stext = address;
        if (f)
                fclose(f);
}

int __wrap_sd_bus_error_setf(sd_bus_error *e, const char *name, const char *format, ...) {
        char text[512];
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        if (n >= 0 && (size_t) n < sizeof(text))
                snprintf(text + n, sizeof(text) - n, " (at %" PRIx64 ")", stext + 0x1234);
        return sd_bus_error_set(e, name, text);
}
