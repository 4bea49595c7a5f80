/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once

/*
 * The one thing no type tells: on some kernels bpf_probe_read_user() can deadlock in an interrupt, since
 * copy_from_user_nofault() took a lock of vmalloc's (check_object_size). It came with 5.19; the fix is in
 * 6.4, 6.3.10 and 6.1.36, and 5.19, 6.0 and 6.2 never got it. There no user memory is read.
 */

/* As in linux/version.h: the patch level has one byte. */
#define RS_KERNEL_VERSION(major, minor, patch) ((major) * 65536 + (minor) * 256 + ((patch) > 255 ? 255 : (patch)))

static inline _Bool kernel_reads_user_memory_safely(int version) {
        if (version >= RS_KERNEL_VERSION(6, 4, 0) || version < RS_KERNEL_VERSION(5, 19, 0))
                return 1;
        if (version >= RS_KERNEL_VERSION(6, 3, 0))
                return version >= RS_KERNEL_VERSION(6, 3, 10);
        if (version >= RS_KERNEL_VERSION(6, 2, 0))
                return 0;
        return version >= RS_KERNEL_VERSION(6, 1, 36);
}
