/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A process with as many mappings as it is told: every second one of them is executable, and all of these are of
 * the same page of this program, which holds one function. It says "ready", then spends the CPU seconds in that
 * function, in one mapping after the other, so that each sample is in another one. 20 times a second one more
 * mapping comes about, is called, and goes.
 *
 *     mappings CPU-SECONDS N
 */

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spin.h"

#define PAGE 65536 /* the largest there are */
#define STRIDE 7919 /* prime: neighbours are not called one after the other */

typedef uint64_t WorkFunction(uint64_t x, unsigned int units);

/* Alone at the start of a page; it calls nothing, and so runs wherever that page is mapped. */
__attribute__((section(".text.mapped"), aligned(PAGE))) static NOINLINE uint64_t in_mapping(uint64_t x, unsigned int units) {
        return spin(x, units);
}

static void *map_function(int fd, off_t offset, void *at, size_t page) {
        return mmap(at, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, offset);
}

/* Where in the program's file the function is. */
static off_t find_offset(void) {
        unsigned long start, end, offset;
        FILE *maps = fopen("/proc/self/maps", "r");
        off_t found = -1;
        char line[4096];

        while (maps && found < 0 && fgets(line, sizeof(line), maps))
                if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && (unsigned long) in_mapping >= start &&
                    (unsigned long) in_mapping < end)
                        found = (off_t) ((unsigned long) in_mapping - start + offset);
        if (maps)
                fclose(maps);
        return found;
}

int main(int argc, char **argv) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE), n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        off_t offset = find_offset();
        double seconds, next = 0;
        uint64_t x = 1;
        char *area;

        if (n < 2 || fd < 0 || offset < 0)
                return 2;
        seconds = spin_seconds(2, argv);
        area = mmap(NULL, n * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (area == MAP_FAILED)
                return 1;
        for (size_t i = 0; i < n; i += 2)
                if (map_function(fd, offset, area + i * page, page) == MAP_FAILED) {
                        fprintf(stderr, "mapping %zu: %m (sysctl vm.max_map_count)\n", i);
                        return 1;
                }
        seconds += spin_cpu_seconds();
        puts("ready");
        fflush(stdout);
        for (size_t i = 0; spin_cpu_seconds() < seconds; i = (i + STRIDE) % (n / 2)) {
                x = ((WorkFunction *) (area + i * 2 * page))(x, 2);
                if (spin_cpu_seconds() > next) {
                        void *new = map_function(fd, offset, NULL, page);

                        if (new == MAP_FAILED)
                                return 1;
                        x = ((WorkFunction *) new)(x, 50);
                        munmap(new, page);
                        next = spin_cpu_seconds() + 0.05;
                }
        }
        return spin_end(x);
}
