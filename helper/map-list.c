/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "map-list.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "maps.skel.h"
#include "util.h"

static void maps_bpf_destroyp(struct maps_bpf **skeleton) {
        maps_bpf__destroy(*skeleton);
}

static void bpf_link_destroyp(struct bpf_link **link) {
        bpf_link__destroy(*link);
}

int map_list_open(void) {
        _cleanup_(maps_bpf_destroyp) struct maps_bpf *skeleton = NULL;
        _cleanup_(bpf_link_destroyp) struct bpf_link *link = NULL;
        int fd;

        /* What it says of failures is about the kernel's memory. */
        libbpf_set_print(NULL);
        skeleton = maps_bpf__open_and_load();
        if (!skeleton)
                return -errno;
        link = bpf_program__attach_iter(skeleton->progs.list_maps, NULL);
        if (!link)
                return -errno;
        /* The link holds the program; the rest may go. */
        fd = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? -errno : fd;
}

int map_list_has(int list_fd, uint32_t id) {
        char names[2][MAP_NAME_SIZE], name[MAP_NAME_SIZE];
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(names[0], sizeof(names[0]), MAP_NAME_RING, id);
        snprintf(names[1], sizeof(names[1]), MAP_NAME_COUNTERS, id);
        fd = bpf_iter_create(list_fd);
        if (fd < 0)
                return -errno;
        /* The iterator writes whole names. */
        while ((n = read(fd, name, sizeof(name))) > 0)
                if (n == sizeof(name) && (strncmp(name, names[0], sizeof(name)) == 0 ||
                                          strncmp(name, names[1], sizeof(name)) == 0))
                        return 1;
        return n < 0 ? -errno : 0;
}
