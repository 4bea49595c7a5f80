/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "map-list.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>

#include "maps.skel.h"
#include "util.h"

DEFINE_CLEANUP(struct maps_bpf, maps_bpf__destroy);
DEFINE_CLEANUP(struct bpf_link, bpf_link__destroy);

int map_list_open(void) {
        _cleanup_(maps_bpf__destroyp) struct maps_bpf *skeleton = NULL;
        _cleanup_(bpf_link__destroyp) struct bpf_link *link = NULL;
        int fd;

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

int map_list_read(int list_fd, struct rs_map_info *ret_maps, size_t max) {
        _cleanup_close_ int fd = bpf_iter_create(list_fd);
        size_t size = 0;
        ssize_t n;

        if (fd < 0)
                return -errno;
        while ((n = read(fd, (char *) ret_maps + size, max * sizeof(*ret_maps) - size)) > 0)
                size += n;
        if (n < 0)
                return -errno;
        return size < max * sizeof(*ret_maps) ? (int) (size / sizeof(*ret_maps)) : -E2BIG;
}
