/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prints where tasks lie in the kernel's memory, a line each: task, stack, mm, credentials, signals, files; and
 * process and execs. In hexadecimal. Root's, for tests/leak.
 */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "addresses.skel.h"
#include "util.h"

int main(void) {
        struct addresses_bpf *skeleton = addresses_bpf__open_and_load();
        struct bpf_link *link = skeleton ? bpf_program__attach_iter(skeleton->progs.tell_addresses, NULL) : NULL;
        uint64_t told[8];
        int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1;

        if (fd < 0) {
                perror("addresses");
                return EXIT_FAILURE;
        }
        /* The iterator writes whole entries. */
        while (read(fd, told, sizeof(told)) == sizeof(told))
                for (size_t i = 0; i < ELEMENTSOF(told); i++)
                        printf("%" PRIx64 "%c", told[i], i + 1 < ELEMENTSOF(told) ? ' ' : '\n');
        return EXIT_SUCCESS;
}
