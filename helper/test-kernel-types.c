/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Needs the kernel, and root: what the programs become with the picked types, and with all that the kernel has. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "control.h"
#include "kernel-types.h"
#include "sampler.skel.h"
#include "util.h"

/* Loaded with the types in fd; -1: all of the kernel's. */
static struct sampler_bpf *load(int fd) {
        char path[64];
        LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = fd >= 0 ? path : NULL);
        struct sampler_bpf *skeleton;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        skeleton = sampler_bpf__open_opts(&options);
        assert_non_null(skeleton);
        /* Where there are no modules there is nothing to attach it to. */
        (void) bpf_program__set_autoload(skeleton->progs.on_module_free, access("/proc/sys/kernel/modprobe", F_OK) == 0);
        skeleton->rodata->reads_user_memory = skeleton->rodata->tells_kernel = true;
        assert_int_equal(sampler_bpf__load(skeleton), 0);
        return skeleton;
}

static int make(struct kernel_types *ret) {
        struct sampler_bpf *skeleton = sampler_bpf__open();
        int fd;

        assert_non_null(skeleton);
        fd = kernel_types_make(bpf_object__btf(skeleton->obj), ret);
        assert_true(fd >= 0 && ret->picked);
        sampler_bpf__destroy(skeleton);
        return fd;
}

static void test_same_programs(_unused_ void **state) {
        struct kernel_types types;
        _cleanup_close_ int fd = make(&types);
        struct sampler_bpf *all = load(-1), *picked = load(fd);
        struct bpf_program *a = NULL, *b = NULL;
        size_t relocated = 0;

        while ((a = bpf_object__next_program(all->obj, a))) {
                const struct bpf_insn *x = bpf_program__insns(a), *y;

                b = bpf_object__next_program(picked->obj, b);
                y = bpf_program__insns(b);
                assert_int_equal(bpf_program__insn_cnt(a), bpf_program__insn_cnt(b));
                for (size_t i = 0; i < bpf_program__insn_cnt(a); i++) {
                        /* But for the descriptors of maps. */
                        if (x[i].code == (BPF_LD | BPF_IMM | BPF_DW) && x[i].src_reg != 0) {
                                relocated++;
                                continue;
                        }
                        if (memcmp(&x[i], &y[i], sizeof(x[i])) != 0)
                                fail_msg("%s: instruction %zu differs", bpf_program__name(a), i);
                }
        }
        assert_true(relocated > 0);
        sampler_bpf__destroy(picked);
        sampler_bpf__destroy(all);
}


static struct bpf_prog_info get_info(const struct bpf_program *program) {
        struct bpf_prog_info info = {};
        uint32_t size = sizeof(info);

        assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size), 0);
        return info;
}

/* A kernel that does not know bpf_loop() and bpf_find_vma(): that the helpers are listed in has another name there. */
static void test_older_kernel(_unused_ void **state) {
        struct kernel_types made;
        _cleanup_close_ int fd = make(&made), older = memfd_create("older", MFD_CLOEXEC);
        struct sampler_bpf *without, *with;
        char *types, *name;
        struct stat st;

        assert_true(older >= 0 && fstat(fd, &st) == 0);
        types = malloc(st.st_size);
        assert_non_null(types);
        assert_int_equal(pread(fd, types, st.st_size, 0), st.st_size);
        name = memmem(types, st.st_size, "bpf_func_id", sizeof("bpf_func_id"));
        assert_non_null(name);
        name[0] = 'x';
        assert_int_equal(write(older, types, st.st_size), st.st_size);
        without = load(older);
        with = load(fd);
        /* Turn by turn, and far from the million that a verifier takes. */
        assert_in_range(get_info(without->progs.on_sample_0).verified_insns,
                        get_info(with->progs.on_sample_0).verified_insns + RS_FRAMES_MAX,
                        50000);
        sampler_bpf__destroy(with);
        sampler_bpf__destroy(without);
        free(types);
}

static void test_sealed(_unused_ void **state) {
        struct kernel_types types;
        _cleanup_close_ int fd = make(&types);

        assert_int_equal(write(fd, "x", 1), -1);
        assert_int_equal(ftruncate(fd, 0), -1);
        assert_true(mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
}

/* What is given by number is what libbpf would have found. For good in this process, so this comes last. */
static void test_same_places(_unused_ void **state) {
        struct kernel_types types;
        _cleanup_close_ int fd = make(&types);
        struct sampler_bpf *all = load(-1), *numbered;
        struct bpf_program *a = NULL, *b = NULL;
        size_t traced = 0;

        assert_int_equal(kernel_types_use(&types), 0);
        numbered = load(fd);
        while ((a = bpf_object__next_program(all->obj, a))) {
                struct bpf_prog_info x, y;

                b = bpf_object__next_program(numbered->obj, b);
                if (!bpf_program__autoload(a))
                        continue;
                x = get_info(a);
                y = get_info(b);
                assert_int_equal(x.type, y.type);
                assert_int_equal(x.attach_btf_id, y.attach_btf_id);
                if (x.type != BPF_PROG_TYPE_TRACING)
                        continue;
                traced++;
                /* It was given. */
                for (size_t i = 0; y.attach_btf_id != types.traced[i]; i++)
                        assert_true(i + 1 < KERNEL_TRACED);
        }
        assert_int_equal(traced, KERNEL_TRACED - !bpf_program__autoload(all->progs.on_module_free));
        sampler_bpf__destroy(numbered);
        sampler_bpf__destroy(all);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_same_programs),
                cmocka_unit_test(test_older_kernel),
                cmocka_unit_test(test_sealed),
                cmocka_unit_test(test_same_places),
        };
        const char *must_run = getenv("RINGSIDE_MUST_RUN");

        if (geteuid() != 0) {
                printf("loading programs needs root\n");
                return must_run && strcmp(must_run, "1") == 0 ? EXIT_FAILURE : 77;
        }
        libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
