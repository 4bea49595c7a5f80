/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * stuck-exec DIR SECONDS: a process of an ordinary user that stays in the middle of an exec. The exec waits for an
 * asynchronous read that was begun before it, from a file system that this program mounts on DIR (in namespaces
 * of its own) and that never answers reads. Prints the process's pid, and lets it go after SECONDS.
 * Exits with 77 where there is no such file system to be had.
 */

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NODE 2

static _Noreturn void fail(const char *what) {
        perror(what);
        exit(77);
}

static void write_file(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                fail(path);
        close(fd);
}

/* Root of namespaces of its own, where everybody may mount this kind of file system. */
static void enter_namespaces(void) {
        char uids[32], gids[32];

        (void) snprintf(uids, sizeof(uids), "0 %d 1", getuid());
        (void) snprintf(gids, sizeof(gids), "0 %d 1", getgid());
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                fail("unshare");
        write_file("/proc/self/setgroups", "deny");
        write_file("/proc/self/uid_map", uids);
        write_file("/proc/self/gid_map", gids);
}

static struct fuse_attr attributes(uint64_t node) {
        return (struct fuse_attr){
                .ino = node,
                .size = 1 << 20,
                .mode = node == FILE_NODE ? S_IFREG | 0644 : S_IFDIR | 0755,
                .nlink = 1,
                .blksize = 4096,
        };
}

static void reply(int fd, uint64_t unique, const void *data, size_t size) {
        struct {
                struct fuse_out_header head;
                char data[256];
        } packet = {.head = {.len = sizeof(packet.head) + size, .unique = unique}};

        memcpy(packet.data, data, size);
        if (write(fd, &packet, packet.head.len) < 0)
                perror("reply");
}

/* One directory with one file, under whatever name; reads wait. */
static void serve(int fd) {
        static char buffer[1 << 17];
        const struct fuse_in_header *in = (void *) buffer;

        while (read(fd, buffer, sizeof(buffer)) >= (ssize_t) sizeof(*in)) {
                struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .flags = FUSE_ASYNC_DIO,
                                             .max_background = 16, .congestion_threshold = 8, .max_write = 4096};
                struct fuse_entry_out entry = {.nodeid = FILE_NODE, .attr_valid = 1000, .entry_valid = 1000,
                                               .attr = attributes(FILE_NODE)};
                struct fuse_attr_out attr = {.attr_valid = 1000, .attr = attributes(in->nodeid)};
                struct fuse_open_out opened = {.fh = 1};

                switch (in->opcode) {
                case FUSE_INIT:
                        reply(fd, in->unique, &init, sizeof(init));
                        break;
                case FUSE_LOOKUP:
                        reply(fd, in->unique, &entry, sizeof(entry));
                        break;
                case FUSE_GETATTR:
                        reply(fd, in->unique, &attr, sizeof(attr));
                        break;
                case FUSE_OPEN:
                        reply(fd, in->unique, &opened, sizeof(opened));
                        break;
                default:
                        break;
                }
        }
}

static _Noreturn void get_stuck(const char *dir) {
        aio_context_t context = 0;
        struct iocb read_one = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_nbytes = 4096}, *list = &read_one;
        char path[4096];
        int fd;

        (void) snprintf(path, sizeof(path), "%s/file", dir);
        fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
        read_one.aio_fildes = fd;
        read_one.aio_buf = (uintptr_t) aligned_alloc(4096, 4096);
        if (fd < 0 || syscall(SYS_io_setup, 1, &context) < 0 || syscall(SYS_io_submit, context, 1, &list) != 1)
                fail(path);
        execl("/bin/sleep", "sleep", "1000", NULL);
        fail("exec");
}

int main(int argc, char *argv[]) {
        pid_t server, stuck;
        char options[64];
        int fd;

        if (argc != 3)
                return 2;
        enter_namespaces();
        fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        (void) snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", fd);
        if (fd < 0 || mount("stuck", argv[1], "fuse", 0, options) < 0)
                fail("/dev/fuse");
        server = fork();
        if (server == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                serve(fd);
                _exit(0);
        }
        /* Only the server has it then, and the file system ends with the server. */
        close(fd);
        stuck = fork();
        if (stuck == 0)
                get_stuck(argv[1]);
        printf("%d\n", stuck);
        fflush(stdout);
        sleep(atoi(argv[2]));
        kill(server, SIGKILL);
        kill(stuck, SIGKILL);
        while (wait(NULL) > 0)
                ;
        return 0;
}
