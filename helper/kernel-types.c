/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernel-types.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "util.h"

const char *const kernel_traced[KERNEL_TRACED] = {
        "tp_btf/sched_process_fork", "tp_btf/sched_process_exec", "tp_btf/sched_process_exit", "tp_btf/task_rename",
        "tp_btf/module_free", "iter/task", "iter/task_vma",
};

typedef struct Picked {
        const struct btf *kernel;
        struct btf *types;
        int *ids; /* in types, of each of the kernel's; 0: not there */
} Picked;

static int pick(Picked *picked, uint32_t kernel_id);

/* The copy of a type still has the kernel's number of another one. */
static int pick_part(Picked *picked, int id, size_t offset) {
        uint32_t *part = (uint32_t *) ((char *) btf__type_by_id(picked->types, id) + offset);
        int r = pick(picked, *part);

        /* What is added may move what is there. */
        if (r >= 0)
                *(uint32_t *) ((char *) btf__type_by_id(picked->types, id) + offset) = r;
        return MIN(r, 0);
}

/* With all that it holds by value, which gives it its layout. Returns its new number, or -errno. */
static int pick(Picked *picked, uint32_t kernel_id) {
        const struct btf_type *type = btf__type_by_id(picked->kernel, kernel_id);
        int r, id = picked->ids[kernel_id];

        if (kernel_id == 0 || id != 0)
                return id;
        id = btf_is_ptr(type) ? btf__add_ptr(picked->types, 0) : btf__add_type(picked->types, picked->kernel, type);
        if (id < 0)
                return id;
        picked->ids[kernel_id] = id;
        r = btf_is_typedef(type) || (btf_is_mod(type) && !btf_is_ptr(type))
                    ? pick_part(picked, id, offsetof(struct btf_type, type)) : 0;
        if (btf_is_array(type) && (r = pick_part(picked, id, sizeof(*type) + offsetof(struct btf_array, type))) >= 0)
                r = pick_part(picked, id, sizeof(*type) + offsetof(struct btf_array, index_type));
        for (size_t i = 0; r >= 0 && btf_is_composite(type) && i < btf_vlen(type); i++)
                r = pick_part(picked, id, sizeof(*type) + i * sizeof(struct btf_member) + offsetof(struct btf_member, type));
        return r < 0 ? r : id;
}

/* What comes after three underscores is ours. */
static int pick_named(Picked *picked, const struct btf *programs) {
        const int n = btf__type_cnt(picked->kernel);

        for (uint32_t i = 1; i < btf__type_cnt(programs); i++) {
                const struct btf_type *type = btf__type_by_id(programs, i);
                _cleanup_free_ char *name = strdup(btf__name_by_offset(programs, type->name_off));
                int r;

                if (!name)
                        return -ENOMEM;
                if (name[0] == 0 || !(btf_is_composite(type) || btf_is_enum(type)))
                        continue;
                if (strstr(name, "___"))
                        *strstr(name, "___") = 0;
                /* All of a name: of two that differ libbpf takes none. */
                for (r = btf__find_by_name_kind(picked->kernel, name, btf_kind(type)); r > 0 && r < n; r++) {
                        const struct btf_type *t = btf__type_by_id(picked->kernel, r);

                        if (btf_kind(t) == btf_kind(type) && strcmp(btf__name_by_offset(picked->kernel, t->name_off), name) == 0 &&
                            pick(picked, r) < 0)
                                return -ENOMEM;
                }
        }
        return 0;
}

static int to_memfd(const struct btf *types) {
        _cleanup_close_ int fd = memfd_create("ringside-types", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint32_t size;
        const void *data = btf__raw_data(types, &size);

        if (fd < 0 || !data || write(fd, data, size) != (ssize_t) size ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return -EIO;
        return TAKE_FD(fd);
}

static uint32_t find_traced(const struct btf *kernel, const char *section) {
        bool iterates = section[0] == 'i';
        char name[64];

        (void) snprintf(name, sizeof(name), "%s%s", iterates ? "bpf_iter_" : "btf_trace_", strchr(section, '/') + 1);
        return MAX(0, btf__find_by_name_kind(kernel, name, iterates ? BTF_KIND_FUNC : BTF_KIND_TYPEDEF));
}

int kernel_types_make(const struct btf *programs, struct kernel_types *ret) {
        Picked picked = {.kernel = btf__parse_raw("/sys/kernel/btf/vmlinux"), .types = btf__new_empty()};
        int r = -ENOMEM;

        if (picked.kernel && picked.types)
                picked.ids = calloc(btf__type_cnt(picked.kernel), sizeof(*picked.ids));
        if (picked.ids && (r = pick_named(&picked, programs)) >= 0)
                r = to_memfd(picked.types);
        *ret = (struct kernel_types){.picked = r >= 0};
        for (size_t i = 0; r >= 0 && i < KERNEL_TRACED; i++)
                ret->traced[i] = find_traced(picked.kernel, kernel_traced[i]);
        free(picked.ids);
        btf__free(picked.types);
        btf__free((struct btf *) picked.kernel);
        return r;
}

/* Of such a program libbpf would look up what it is attached to: so it hears last of all that it is one. */
static int prepare_traced(struct bpf_program *program, struct bpf_prog_load_opts *options, long number) {
        options->attach_btf_id = number;
        return bpf_program__set_type(program, BPF_PROG_TYPE_TRACING);
}

int kernel_types_use(const struct kernel_types *types) {
        for (size_t i = 0; i < KERNEL_TRACED; i++) {
                LIBBPF_OPTS(libbpf_prog_handler_opts, handler, .prog_prepare_load_fn = prepare_traced, .cookie = types->traced[i]);
                int r = types->traced[i] == 0 ? 0 : libbpf_register_prog_handler(
                                kernel_traced[i], BPF_PROG_TYPE_RAW_TRACEPOINT,
                                kernel_traced[i][0] == 'i' ? BPF_TRACE_ITER : BPF_TRACE_RAW_TP, &handler);

                if (r < 0)
                        return r;
        }
        return 0;
}
